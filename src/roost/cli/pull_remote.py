"""WIRING: `roost pull --node`: has nodes of a gateway fetch a model, and shows how far they are."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from roost.cli import options
from roost.cli.client import ask, fleet_as
from roost.cli.following import ALL, Job, Seen, follow, told
from roost.core.snapshots import PullView
from roost.errors import RoostError, fail
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from roost.config import Settings


class _Node(msgspec.Struct, frozen=True):
    id: str
    state: str
    pulls: tuple[PullView, ...] | None = None


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
    jobs = [told(settings, name, "pull", wanted, _Job) for name in _nodes(settings, node)]
    try:
        done = follow([(job.node, job.job) for job in jobs if job], partial(_pulls, settings))
    except KeyboardInterrupt:
        ends = f"roost pull {shlex.quote(wanted.source)} --node {shlex.quote(node)} --cancel"
        print(f"the nodes go on; what ends them: {ends}", file=sys.stderr)
        raise
    return 0 if done and all(jobs) else 1


def cancel_onto(settings: Settings, node: str, source: str) -> int:
    """Have one node, or all, give up pulls of this source; 1 where there is none, or one stays."""
    running = [
        _Job(one.id, pull.job)
        for one in fleet_as(settings, _Node)
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
    here = [one for one in fleet_as(settings, _Node) if one.state != "dead"]
    able = [one.id for one in here if one.pulls is not None]
    if not able:
        raise fail("not_found", "No node that is here takes pulls. See: roost fleet")
    return able


def _pulls(settings: Settings) -> dict[Job, Seen]:
    nodes = fleet_as(settings, _Node)
    return {(node.id, pull.job): _seen(pull) for node in nodes for pull in node.pulls or ()}


def _seen(pull: PullView) -> Seen:
    match pull.stage:
        case "done":
            return Seen(f"{in_one_line(pull.model)} is installed", over=True)
        case "failed":
            return Seen(in_one_line(pull.failure or "it failed"), over=True, failed=True)
        case _:
            return Seen(progress(pull))


def progress(pull: PullView) -> str:
    """Say in a few words how far a pull is, in tenths."""
    if not pull.total_bytes:
        return pull.stage
    tenths = 10 * min(pull.done_bytes, pull.total_bytes) // pull.total_bytes
    return f"{pull.stage} {10 * tenths} % of {options.human_bytes(pull.total_bytes)}"
