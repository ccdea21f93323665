"""SHELL: `python -m roost.bench.bare MODULE`: a library's own loop, timed when it is asked to be.

The first line on standard input is what to load; each one after it is work, and is answered by the
seconds that it took.
"""

from __future__ import annotations

import importlib
import sys
from time import perf_counter
from typing import TYPE_CHECKING, cast

import msgspec

from roost.backends.hosted.frames import Load

if TYPE_CHECKING:
    from roost.backends.hosted.engine import Bare


class Work(msgspec.Struct, frozen=True):
    """So many tokens behind each of these prompts, one after the other or all at once."""

    prompts: tuple[tuple[int, ...], ...]
    tokens: int
    batch: bool = False


def main(argv: list[str]) -> None:
    """Load, then work until nobody asks."""
    first = msgspec.json.decode(sys.stdin.readline(), type=Load)
    say = cast("Bare", importlib.import_module(argv[1]).bare(first))
    _tell("0")
    for line in sys.stdin:
        work = msgspec.json.decode(line, type=Work)
        began_s = perf_counter()
        say(work.prompts, work.tokens, batch=work.batch)
        _tell(repr(perf_counter() - began_s))


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv)
