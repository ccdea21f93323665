"""A real library that breaks the protocol after three tokens: for a host that has to notice."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

from roost.backends.hosted.engine import Engine, ParallelEngine, Running, VectorEngine
from roost.backends.hosted.frames import Load, Loaded, Run, Said
from roost.backends.libraries import candle_engine, onnx_genai_engine, transformers_engine

GARBAGE_AFTER = 3


class Spoilt:
    """Says what the engine says, then what is no frame."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def loaded(self) -> Loaded:
        """What the engine has."""
        return self._engine.loaded

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """As the engine does."""
        return self._engine.tokenize(piece, special=special)

    def run(self, job: Run) -> Running:
        """Break off in the middle of an answer."""
        return (yield from _broken(self._engine.run(job)))


class SpoiltParallel:
    """Says what an engine with a scheduler of its own says, then what is no frame."""

    def __init__(self, engine: ParallelEngine) -> None:
        self._engine = engine

    @property
    def loaded(self) -> Loaded:
        """What the engine has."""
        return self._engine.loaded

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """As the engine does."""
        return self._engine.tokenize(piece, special=special)

    def stream(self, job: Run) -> Running:
        """Break off in the middle of an answer."""
        return (yield from _broken(self._engine.stream(job)))


def _broken(steps: Running) -> Running:
    said = 0
    for step in steps:
        said += isinstance(step, Said)
        if said > GARBAGE_AFTER:
            os.write(int(sys.argv[1]), b"\xff" * 64)
        yield step
    return "length"


def onnx_genai(order: Load, on_progress: Callable[[float], None]) -> Spoilt:
    """Load ONNX GenAI."""
    return Spoilt(onnx_genai_engine.load(order, on_progress))


def transformers(order: Load, on_progress: Callable[[float], None]) -> Spoilt:
    """Load Transformers."""
    engine = transformers_engine.load(order, on_progress)
    assert not isinstance(engine, VectorEngine), "it was to say texts"
    return Spoilt(engine)


def candle(order: Load, on_progress: Callable[[float], None]) -> SpoiltParallel:
    """Load Candle."""
    return SpoiltParallel(candle_engine.load(order, on_progress))
