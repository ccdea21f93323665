"""WIRING: `roost pull --node`: has nodes of a gateway fetch a model, and shows how far they are."""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from roost.cli import options
from roost.cli.client import ask, read_as
from roost.core.snapshots import PullView
from roost.errors import RoostError, fail
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from roost.config import Settings

ALL = "all"
POLL_S = 0.5
LOST_S = 60.0
"""Without a word of a pull: its node is gone, or has started anew."""


class _Node(msgspec.Struct, frozen=True):
    id: str
    state: str
    pulls: tuple[PullView, ...] | None = None


class _Fleet(msgspec.Struct, frozen=True):
    nodes: tuple[_Node, ...]


class _Job(msgspec.Struct, frozen=True):
    node: str
    job: str


class Wanted(msgspec.Struct, frozen=True):
    """What the gateway is sent."""

    source: str
    file: str
    accept_licence: bool


def pull_onto(settings: Settings, node: str, wanted: Wanted) -> int:
    """Ask one node, or all that can; wait for them, and return 1 where one of them failed.

    Leaving does not stop them: what they fetch is theirs to finish, or `cancel_onto`'s to end.
    """
    jobs = [_asked(settings, name, wanted) for name in _nodes(settings, node)]
    try:
        done = _Follower(settings, [job for job in jobs if job]).follow()
    except KeyboardInterrupt:
        ends = f"roost pull {shlex.quote(wanted.source)} --node {shlex.quote(node)} --cancel"
        print(f"the nodes go on; what ends them: {ends}", file=sys.stderr)
        raise
    return 0 if done and all(jobs) else 1


def cancel_onto(settings: Settings, node: str, source: str) -> int:
    """Have one node, or all, give up pulls of this source; 1 where there is none, or one stays."""
    running = [
        _Job(one.id, pull.job)
        for one in _fleet(settings).nodes
        for pull in one.pulls or ()
        if node in (ALL, one.id) and pull.source == source and not pull.is_over
    ]
    if not running:
        print(f"no node there is pulling {in_one_line(source)}", file=sys.stderr)
        return 1
    ended = [_cancelled(settings, job) for job in running]
    return 0 if all(ended) else 1


def _cancelled(settings: Settings, job: _Job) -> bool:
    path = f"/roost/v1/nodes/{quote(job.node, safe='')}/pull/{quote(job.job, safe='')}"
    node = in_one_line(job.node)
    try:
        ask(settings, path, "DELETE")
    except RoostError as error:
        print(f"{node}: {error.failure.message}", file=sys.stderr)
        return False
    print(f"{node}: it ends, and keeps what has arrived")
    return True


def _nodes(settings: Settings, wanted: str) -> list[str]:
    if wanted != ALL:
        return [wanted]
    here = [one for one in _fleet(settings).nodes if one.state != "dead"]
    able = [one.id for one in here if one.pulls is not None]
    if not able:
        raise fail("not_found", "No node that is here takes pulls. See: roost fleet")
    return able


def _fleet(settings: Settings) -> _Fleet:
    return read_as(ask(settings, "/roost/v1/fleet"), _Fleet)


def _asked(settings: Settings, node: str, wanted: Wanted) -> _Job | None:
    """Ask one node; what is wrong with it alone does not keep others from theirs."""
    path = f"/roost/v1/nodes/{quote(node, safe='')}/pull"
    try:
        return read_as(ask(settings, path, "POST", msgspec.json.encode(wanted)), _Job)
    except RoostError as error:
        print(f"{in_one_line(node)}: {error.failure.message}", file=sys.stderr)
        return None


class _Follower:
    """Shows a line whenever a pull is in another stage, or a tenth further."""

    def __init__(self, settings: Settings, jobs: list[_Job]) -> None:
        self._settings = settings
        self._open = {(job.node, job.job): time.monotonic() for job in jobs}
        self._shown: dict[tuple[str, str], str] = {}
        self._failed = False

    def follow(self) -> bool:
        """Wait for the end of all; whether every one of them is done."""
        while self._open:
            seen = {
                (node.id, pull.job): pull
                for node in _fleet(self._settings).nodes
                for pull in node.pulls or ()
            }
            for key in list(self._open):
                self._look(key, seen.get(key))
            if self._open:
                time.sleep(POLL_S)
        return not self._failed

    def _look(self, key: tuple[str, str], pull: PullView | None) -> None:
        now, node = time.monotonic(), in_one_line(key[0])
        if pull is None:
            if now - self._open[key] >= LOST_S:
                self._end(key, f"{node}: nothing is heard of it any more", failed=True)
            return
        self._open[key] = now
        if pull.stage == "done":
            self._end(key, f"{node}: {in_one_line(pull.model)} is installed", failed=False)
        elif pull.stage == "failed":
            self._end(key, f"{node}: {in_one_line(pull.failure or 'it failed')}", failed=True)
        else:
            line = f"{node}: {progress(pull)}"
            if self._shown.get(key) != line:
                self._shown[key] = line
                print(line, file=sys.stderr, flush=True)

    def _end(self, key: tuple[str, str], line: str, *, failed: bool) -> None:
        del self._open[key]
        self._failed = self._failed or failed
        print(line, file=sys.stderr if failed else sys.stdout, flush=True)


def progress(pull: PullView) -> str:
    """Say in a few words how far a pull is, in tenths."""
    if not pull.total_bytes:
        return pull.stage
    tenths = 10 * min(pull.done_bytes, pull.total_bytes) // pull.total_bytes
    return f"{pull.stage} {10 * tenths} % of {options.human_bytes(pull.total_bytes)}"
