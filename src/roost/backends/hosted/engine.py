"""VALUE: what a library's adapter does inside a hosted child.

It is called by one thread, except for `tokenize`, which another one may call meanwhile, and for
what a `ParallelEngine` streams.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from roost.backends.hosted.frames import Load, Loaded, Run, Step

Ended = Literal["stop", "length"]
Running: TypeAlias = Generator[Step, None, Ended]


class CannotLoad(Exception):  # noqa: N818 - it is what its message says
    """A model cannot be loaded; the message is for the person who wanted it, and holds no path."""


class Engine(Protocol):
    """A model in memory, with as many slots as were asked for."""

    @property
    def loaded(self) -> Loaded:
        """What it really has."""
        ...

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Tokenise a piece and add nothing; `special`: texts of special tokens become those."""
        ...

    def run(self, job: Run) -> Running:
        """Give the steps of a run: `Began`, then a `Filled` per batch, then a `Said` per token.

        Between two of them lies a bounded piece of work, because other runs have their turn there
        and a run can only be left there: closing the generator is what cancels it. The end says
        whether the model has ended the answer (`stop`) or its limit.
        """
        ...


@runtime_checkable
class ParallelEngine(Protocol):
    """A model in memory whose library has a scheduler of its own, which several runs are given to.

    What it says of `loaded` and `tokenize` is the same as for an `Engine`.
    """

    @property
    def loaded(self) -> Loaded:
        """What it really has."""
        ...

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Tokenise a piece and add nothing; `special`: texts of special tokens become those."""
        ...

    def stream(self, job: Run) -> Running:
        """Give the steps of a run, as `Engine.run` does, in a thread of the run's own.

        Between two of them it waits for the library, which computes for all of them meanwhile.
        """
        ...


@runtime_checkable
class VectorEngine(Protocol):
    """A model in memory that makes vectors; what it says of `loaded` and `tokenize` is the same."""

    @property
    def loaded(self) -> Loaded:
        """What it really has."""
        ...

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Tokenise a piece and add nothing; `special`: texts of special tokens become those."""
        ...

    def embed(self, batch: Sequence[Sequence[int]]) -> tuple[int, bytes]:
        """Make a vector of length 1 for each input: their size, and `core.vectors.packed`."""
        ...


class Bare(Protocol):
    """A library's own loop over its own model, which a host is measured against."""

    def __call__(self, prompts: Sequence[tuple[int, ...]], tokens: int, *, batch: bool) -> None:
        """Say so many tokens, the likeliest, behind each prompt; all at once, or without batch."""
        ...


Loader: TypeAlias = Callable[
    [Load, Callable[[float], None]], Engine | ParallelEngine | VectorEngine
]
"""Loads a model and tells how much of it, 0..1, is there; raises `CannotLoad`."""
