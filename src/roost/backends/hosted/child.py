"""SHELL: the program in a hosted runtime's process: one library, one model, one parent.

    python -m roost.backends.hosted.child SOCKET_FD MODULE:LOADER

It serves until its parent closes the socket. One thread reads and tokenises, another one computes,
so that a long step delays no count of another prompt. Of a library that schedules its runs itself
there is a thread for each of them.
"""

from __future__ import annotations

import importlib
import logging
import os
import resource
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias, cast

import msgspec

from roost.backends.hosted.engine import (
    CannotLoad,
    Engine,
    Loader,
    ParallelEngine,
    VectorEngine,
)
from roost.backends.hosted.frames import (
    VERSION,
    Broken,
    Cancel,
    Embed,
    Embedded,
    Hello,
    Load,
    Loading,
    Order,
    Refused,
    Splitter,
    Tokenize,
    Tokenized,
    Word,
    pack,
)
from roost.backends.hosted.parallel import Parallel
from roost.backends.hosted.rounds import Rounds

AnyEngine: TypeAlias = Engine | ParallelEngine | VectorEngine

READ_BYTES = 256 * 1024
DEFECT = 70


class Wire:
    """The socket to the parent, written by two threads."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, data: bytes) -> None:
        """Write frames; waits while the parent does not read."""
        with self._lock:
            self._connection.sendall(data)

    def say(self, word: Word) -> None:
        """Write one frame."""
        self.send(pack(word))

    def orders(self) -> Iterator[Order]:
        """Read until the parent closes."""
        splitter, decoder = Splitter(), msgspec.msgpack.Decoder(Order)
        while data := self._connection.recv(READ_BYTES):
            for frame in splitter.push(data):
                yield decoder.decode(frame)


class Questions:
    """Questions for vectors in the order in which they came, between two threads.

    Leaving one never waits: a reader that did would not get to the cancel that makes room. There
    are no more than the node has asked and not left.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Embed] = {}
        self._changed = threading.Condition()

    def put(self, ask: Embed) -> None:
        """Leave a question."""
        with self._changed:
            self._waiting[ask.ask] = ask
            self._changed.notify()

    def cancel(self, number: int) -> None:
        """Nobody waits for this answer any more; one that has had its turn is no mistake."""
        with self._changed:
            self._waiting.pop(number, None)

    def take(self) -> Embed:
        """Wait for the next one."""
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            return self._waiting.pop(next(iter(self._waiting)))


def tokenized(engine: AnyEngine, ask: Tokenize) -> Word:
    """Answer a question for tokens; what goes wrong is the asker's own answer."""
    try:
        lists = [tuple(engine.tokenize(piece, special=ask.special)) for piece in ask.pieces]
    except Exception as error:
        logging.getLogger(__name__).exception("a text was not tokenised")
        return Refused(ask.ask, f"the library raised {type(error).__name__}")
    tokens = tuple(token for part in lists for token in part)
    return Tokenized(ask.ask, len(tokens), tokens if len(tokens) <= ask.tokens_max else ())


def embedded(engine: VectorEngine, ask: Embed) -> Word:
    """Answer a question for vectors; what goes wrong is the asker's own answer."""
    try:
        size, data = engine.embed(ask.batch)
    except Exception as error:
        logging.getLogger(__name__).exception("no vectors were made")
        return Refused(ask.ask, f"the library raised {type(error).__name__}")
    return Embedded(ask.ask, size, data)


def _loaded(load: Loader, order: Load, wire: Wire) -> AnyEngine | None:
    try:
        engine = load(order, lambda part: wire.say(Loading(part)))
    except CannotLoad as error:
        wire.say(Broken(str(error)))
    except MemoryError:
        # Room that others make is of no use to who has reached a limit of its own.
        free = resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY
        wire.say(Broken("The runtime has no memory left to load the model.", memory=free))
    except Exception as error:
        logging.getLogger(__name__).exception("the model was not loaded")
        wire.say(
            Broken(
                f"The library cannot load the model ({type(error).__name__}); the log says more."
            )
        )
    else:
        wire.say(engine.loaded)
        return engine
    return None


def serve(connection: socket.socket, load: Loader) -> None:
    """Load the model that the parent names and serve it; returns when the parent is gone."""
    wire = Wire(connection)
    wire.say(Hello(VERSION))
    orders = wire.orders()
    first = next(orders, None)
    engine = _loaded(load, first, wire) if isinstance(first, Load) else None
    if engine is None:
        return
    if isinstance(engine, VectorEngine) and isinstance(first, Load) and first.mode == "embed":
        _serve_vectors(engine, orders, wire)
        return
    runs: Rounds | Parallel
    if isinstance(engine, ParallelEngine):
        runs = Parallel(engine, wire.send, _spawn)
    else:
        runs = Rounds(cast("Engine", engine), wire.send)
        _spawn(runs.forever)
    for order in orders:
        if isinstance(order, Tokenize):
            wire.say(tokenized(engine, order))
        elif not isinstance(order, (Load, Embed)):
            runs.put(order)


def _serve_vectors(engine: VectorEngine, orders: Iterator[Order], wire: Wire) -> None:
    """Make vectors in one thread, a batch at a time, while another one reads and tokenises."""
    questions = Questions()

    def forever() -> None:
        while True:
            wire.say(embedded(engine, questions.take()))

    _spawn(forever)
    for order in orders:
        if isinstance(order, Tokenize):
            wire.say(tokenized(engine, order))
        elif isinstance(order, Embed):
            questions.put(order)
        elif isinstance(order, Cancel):
            questions.cancel(order.run)


def _spawn(work: Callable[[], None]) -> None:
    threading.Thread(target=_work, args=(work,), daemon=True).start()


def _work(work: Callable[[], None]) -> None:
    try:
        work()
    except BaseException:
        # Half a runtime would answer questions and never a request.
        logging.getLogger(__name__).exception("the runtime ends")
        os._exit(DEFECT)


def loader_of(name: str) -> Loader:
    """Import `module:function`."""
    module, _, function = name.partition(":")
    return cast("Loader", getattr(importlib.import_module(module), function))


def main(argv: list[str]) -> None:
    """Serve, then end without waiting for native code that may be computing."""
    logging.basicConfig(level=logging.WARNING)
    try:
        with socket.socket(fileno=int(argv[1])) as connection:
            serve(connection, loader_of(argv[2]))
    except ConnectionError:
        # The parent has closed while something was being written to it.
        os._exit(0)
    except BaseException:
        logging.getLogger(__name__).exception("the runtime ends")
        os._exit(DEFECT)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv)
