"""Runs of a library that has a scheduler of its own: a thread waits for each of them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from roost.backends.hosted.engine import Engine, ParallelEngine, Running, VectorEngine
from roost.backends.hosted.frames import (
    Began,
    Cancel,
    Filled,
    Flow,
    Loaded,
    Over,
    Run,
    Said,
    Splitter,
    Step,
    Word,
)
from roost.backends.hosted.parallel import Parallel

DECODER: msgspec.msgpack.Decoder[Word] = msgspec.msgpack.Decoder(Word)
WAIT_S = 10.0


class Gated:
    """Says a token of a run whenever somebody lets it, and fails where it is told to."""

    def __init__(self) -> None:
        self.loaded = Loaded(64, 100)
        self.closed: list[int] = []
        self._gates = {run: queue.Queue[str](64) for run in (1, 2)}
        self._waiting = {run: threading.Semaphore(0) for run in (1, 2)}

    def let(self, *runs: int, what: str = "say") -> None:
        """Let runs have their next token, or something else."""
        for run in runs:
            self._gates[run].put(what)

    def reached(self, run: int) -> None:
        """See that a run has come to its gate once more."""
        assert self._waiting[run].acquire(timeout=WAIT_S)

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Give bytes."""
        return piece.encode() if special else ()

    def stream(self, job: Run) -> Running:
        """Wait at the gate for every token."""
        try:
            yield Began(job.run)
            number = 0
            while (what := self._next(job.run)) == "say":
                if not number:
                    yield Filled(job.run, len(job.tokens))
                yield Said(job.run, number)
                number += 1
            if what == "raise":
                raise RuntimeError("it says a prompt")
        finally:
            self.closed.append(job.run)
        return "stop"

    def _next(self, run: int) -> str:
        self._waiting[run].release()
        return self._gates[run].get(timeout=WAIT_S)


class Stage:
    """A parallel engine, and what it says, read from one thread."""

    def __init__(self) -> None:
        self.engine = Gated()
        self.words = queue.Queue[Step | Over](256)
        self.threads: list[threading.Thread] = []
        self.runs = Parallel(self.engine, self._send, self._spawn)

    def _send(self, data: bytes) -> None:
        for frame in Splitter().push(data):
            word = DECODER.decode(frame)
            assert isinstance(word, (Began, Filled, Said, Over))
            self.words.put(word)

    def _spawn(self, work: Callable[[], None]) -> None:
        self.threads.append(threading.Thread(target=work))
        self.threads[-1].start()

    def begin(self, run: int, limit: int = 8) -> None:
        """Order a run and see it begin."""
        self.runs.put(Run(run, run, reuse=False, tokens=(1, 2), limit=limit))
        assert self.next() == Began(run)

    def next(self) -> Step | Over:
        """Give the next word; fails where none comes."""
        return self.words.get(timeout=WAIT_S)

    def first(self, run: int) -> None:
        """See the first token of a run."""
        self.engine.let(run)
        assert [self.next(), self.next()] == [Filled(run, 2), Said(run, 0)]


@contextmanager
def staged() -> Iterator[Stage]:
    """Give a stage; no thread of it is left."""
    stage = Stage()
    yield stage
    for thread in stage.threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def over(word: Step | Over) -> tuple[int, str, str]:
    """Tell an end."""
    assert isinstance(word, Over)
    return word.run, word.reason, word.message


def test_a_run_waits_for_no_other() -> None:
    """One whose prompt takes long holds nobody up; each ends at its own limit or the model's."""
    with staged() as stage:
        stage.begin(1)
        stage.begin(2, 2)
        stage.first(2)
        stage.engine.let(2)
        assert stage.next() == Said(2, 1)
        end = stage.next()
        assert over(end) == (2, "length", "")
        assert isinstance(end, Over)
        assert (end.work.prefill_tokens, end.work.decode_tokens) == (2, 2)
        stage.first(1)
        stage.engine.let(1, what="end")
        assert over(stage.next()) == (1, "stop", "")
        assert stage.engine.closed == [2, 1]


def test_a_run_is_left_at_its_next_word() -> None:
    """Not before, for the library is computing; then its end is told, once, and nothing else."""
    with staged() as stage:
        stage.begin(1)
        stage.engine.reached(1)
        stage.runs.put(Cancel(1))
        stage.begin(2)
        stage.first(2)
        assert stage.engine.closed == []
        stage.engine.let(1)
        assert stage.next() == Filled(1, 2)
        assert over(stage.next()) == (1, "cancelled", "")
        assert stage.engine.closed == [1]
        stage.runs.put(Cancel(1))
        stage.runs.put(Flow(1, paused=True))
        stage.engine.let(2, what="end")
        assert over(stage.next()) == (2, "stop", "")


def test_a_reader_that_is_behind_delays_itself() -> None:
    """What a paused run says waits; it goes on where it was, or is left as it is."""
    with staged() as stage:
        stage.begin(1)
        stage.first(1)
        stage.begin(2)
        # What they are waiting for is told still.
        for run in (1, 1, 2):
            stage.engine.reached(run)
        for run in (1, 2):
            stage.runs.put(Flow(run, paused=True))
            stage.engine.let(run, run, run)
        told = [stage.next(), stage.next()]
        assert {type(one) for one in told} == {Said, Filled}
        assert stage.words.empty()
        stage.runs.put(Flow(1, paused=False))
        assert [stage.next(), stage.next()] == [Said(1, 2), Said(1, 3)]
        stage.runs.put(Cancel(2))
        assert over(stage.next()) == (2, "cancelled", "")
        stage.engine.let(1, what="end")
        assert over(stage.next()) == (1, "stop", "")


def test_a_failure_is_of_one_run(caplog: pytest.LogCaptureFixture) -> None:
    """It is told without the library's words, which may hold a prompt."""
    with staged() as stage:
        stage.begin(1)
        stage.begin(2)
        stage.engine.let(1, what="raise")
        assert over(stage.next()) == (1, "failed", "the library raised RuntimeError")
        stage.first(2)
        stage.engine.let(2, what="end")
        assert over(stage.next()) == (2, "stop", "")
    assert "a run failed" in caplog.text


def test_kinds_of_engines_are_told_apart() -> None:
    """By what they have, since the child knows their loader alone."""
    engine: object = Gated()
    assert isinstance(engine, ParallelEngine)
    assert not isinstance(engine, VectorEngine)
    assert not hasattr(engine, Engine.run.__name__)
