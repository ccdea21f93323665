"""WIRING: what nodes of a gateway were told to do: asked of each, and followed to its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from roost.cli.client import ask, read_as
from roost.errors import RoostError
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from roost.config import Settings

T = TypeVar("T")
ALL = "all"
POLL_S = 0.25
LOST_S = 60.0
"""Without a word of a job: its node is gone, or has started anew."""
Job: TypeAlias = tuple[str, str]
"""A node, and what it calls the job."""


class Seen(NamedTuple):
    """What is to be told of a job: in which words, whether it is over, and whether in vain."""

    words: str
    over: bool = False
    failed: bool = False


LOST = Seen("nothing is heard of it any more", over=True, failed=True)


def told(
    settings: Settings, node: str, verb: str, sent: msgspec.Struct, reply: type[T]
) -> T | None:
    """Tell one node; what is wrong with it alone is printed, and keeps no other from its own."""
    path = f"/roost/v1/nodes/{quote(node, safe='')}/{verb}"
    try:
        return read_as(ask(settings, path, "POST", msgspec.json.encode(sent)), reply)
    except RoostError as error:
        print(f"{in_one_line(node)}: {error.failure.message}", file=sys.stderr)
        return None


def follow(
    jobs: Iterable[Job], look: Callable[[], Mapping[Job, Seen]], poll_s: float = POLL_S
) -> bool:
    """Wait for the end of all, telling of each what is new; whether every one of them was done."""
    heard_s = dict.fromkeys(jobs, time.monotonic())
    shown: dict[Job, str] = {}
    done = True
    while heard_s:
        seen, now = look(), time.monotonic()
        for job in [*heard_s]:
            news = seen.get(job)
            if news is not None:
                heard_s[job] = now
            elif now - heard_s[job] >= LOST_S:
                news = LOST
            else:
                continue
            if news.words != shown.get(job) or news.over:
                shown[job] = news.words
                file = sys.stdout if news.over and not news.failed else sys.stderr
                print(f"{in_one_line(job[0])}: {news.words}", file=file, flush=True)
            if news.over:
                del heard_s[job]
                done = done and not news.failed
        if heard_s:
            time.sleep(poll_s)
    return done
