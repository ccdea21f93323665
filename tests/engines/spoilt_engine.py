"""A real library that breaks the protocol after three tokens: for a host that has to notice."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

from roost.backends.hosted.engine import Engine, Running, VectorEngine
from roost.backends.hosted.frames import Load, Loaded, Run, Said
from roost.backends.libraries import onnx_genai_engine, transformers_engine

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
        said = 0
        for step in self._engine.run(job):
            said += isinstance(step, Said)
            if said > GARBAGE_AFTER:
                os.write(int(sys.argv[1]), b"\xff" * 64)
            yield step
        return "length"


def load(order: Load, on_progress: Callable[[float], None]) -> Spoilt:
    """Load the library that reads this folder."""
    ours = order.path.endswith("genai_config.json")
    real = onnx_genai_engine.load if ours else transformers_engine.load
    engine = real(order, on_progress)
    assert not isinstance(engine, VectorEngine), "it was to say texts"
    return Spoilt(engine)
