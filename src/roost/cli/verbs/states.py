"""WIRING: `roost states`: what nodes keep of conversations, and what is to be done with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from roost.cli import options
from roost.cli.client import ask, read_as
from roost.errors import RoostError, fail
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from roost.config import Settings

DESCRIPTION = """\
What nodes keep of conversations: in slots, put aside in memory, and on disk. Nothing that was said
is shown, and tenants go by salted names. save puts a slot aside, restore brings a file from disk
into memory, demote the other way; slots are filled by the next turn alone. erase and prune only
show what would go, unless --yes is given; prune takes what --node, --model, --tier and --older-than
say, or --all, and leaves what is pinned or in use.
"""
ACTIONS = ("save", "restore", "demote", "erase", "pin", "unpin")
DELETES = ("erase", "prune")
ONE_ID = ("show", *ACTIONS)
PATH = "/roost/v1/states"


class _State(msgspec.Struct, frozen=True):
    id: str
    model: str
    tier: str
    status: str
    tenant: str
    tokens: int
    bytes: int | None
    last_accessed_unix_ms: int | None
    pinned: bool
    reusable: bool


class _Page(msgspec.Struct, frozen=True):
    states: tuple[_State, ...]
    next: str | None
    silent: tuple[str, ...]


class _Raw(msgspec.Struct, frozen=True):
    states: list[dict[str, object]]


class _Named(msgspec.Struct, frozen=True):
    id: str
    why: str


class _Pruned(msgspec.Struct, frozen=True):
    dry_run: bool
    selected: tuple[str, ...]
    skipped: tuple[_Named, ...]
    bytes: int
    silent: tuple[str, ...]
    erased: tuple[str, ...]
    failed: tuple[_Named, ...]


class _Answer(NamedTuple):
    """The gateway's own words, and how they are put for people; 1 where something was not done."""

    data: object
    lines: list[str]
    code: int = 0


def main(arguments: list[str]) -> int:
    """Ask the gateway and print what it says."""
    parser = options.parser("states", DESCRIPTION, options.ASKS)
    actions = ("list", *ONE_ID, "prune")
    parser.add_argument("action", nargs="?", default="list", choices=actions)
    parser.add_argument("ids", nargs="*", metavar="ID", help="as `roost states` shows them")
    parser.add_argument("--node", default="", metavar="ID", help="of this node alone; all")
    parser.add_argument("--model", default="", metavar="NAME", help="of this model alone")
    parser.add_argument("--tier", default="", choices=("", "slot", "ram", "disk"))
    older = "prune: not used for so long"
    parser.add_argument("--older-than", type=options.seconds, metavar="SECONDS", help=older)
    parser.add_argument("--all", action="store_true", help="prune: everything")
    parser.add_argument("--yes", action="store_true", help="erase, prune: do it")
    wait = "for a slot or a file in use"
    parser.add_argument("--wait", type=options.seconds, default=5.0, metavar="SECONDS", help=wait)
    parser.add_argument("--json", action="store_true", help="print the gateway's own JSON")
    parsed = parser.parse_args(arguments)
    _check(parsed)
    answer = _answered(options.load(parsed).settings, parsed)
    if parsed.json:
        options.print_json(answer.data)
    else:
        for line in answer.lines:
            print(line)
    return answer.code


def _check(parsed: Namespace) -> None:
    if parsed.action in ONE_ID and not parsed.ids:
        raise fail("bad_request", f"roost states {parsed.action} needs an ID; see: roost states")
    if parsed.ids and parsed.action not in (*ONE_ID, "prune"):
        raise fail("bad_request", f"roost states {parsed.action} takes no ID.")
    if parsed.action == "prune":
        named = (parsed.model, parsed.tier, parsed.older_than)
        ways = (bool(parsed.ids), parsed.all, any(one not in ("", None) for one in named))
        if sum(ways) != 1:
            message = "prune needs one of: IDs, --all, or some of --model, --tier, --older-than."
            raise fail("bad_request", message)


def _answered(settings: Settings, parsed: Namespace) -> _Answer:
    if parsed.action == "list":
        return _listed(settings, parsed)
    if parsed.action == "prune":
        return _pruned(settings, parsed)
    done = [_one(settings, parsed, name) for name in parsed.ids]
    data = [one.data for one in done]
    lines = [line for one in done for line in one.lines]
    return _Answer(data[0] if len(data) == 1 else data, lines, max(one.code for one in done))


def _data(body: dict[str, object]) -> object:
    return body.get("data")


def _listed(settings: Settings, parsed: Namespace) -> _Answer:
    asked = {"node": parsed.node, "model": parsed.model, "tier": parsed.tier}
    query = {name: value for name, value in asked.items() if value}
    states: list[dict[str, object]] = []
    rows: list[_State] = []
    silent: tuple[str, ...] = ()
    after: str | None = ""
    while after is not None:
        page_query = urlencode({**query, **({"after": after} if after else {})})
        data = _data(ask(settings, f"{PATH}?{page_query}" if page_query else PATH))
        page = read_as(data, _Page)
        states += read_as(data, _Raw).states
        rows += page.states
        silent, after = page.silent, page.next
    lines = [_row(one) for one in rows] or ["no state is kept anywhere"]
    lines += [f"{in_one_line(node)} did not answer" for node in silent]
    return _Answer({"states": states, "silent": silent}, lines)


def _row(one: _State) -> str:
    size = "-" if one.bytes is None else options.human_bytes(one.bytes)
    used = "now" if one.last_accessed_unix_ms is None else _ago(one.last_accessed_unix_ms)
    words = [one.tier, one.status, f"{one.tokens} tokens", size, used, one.tenant]
    words += ["pinned"] * one.pinned + ["no runtime reads it now"] * (not one.reusable)
    return "  ".join(in_one_line(word) for word in (one.id, one.model, *words))


def _ago(unix_ms: int) -> str:
    return f"{max(0, round(time.time() - unix_ms / 1000))} s ago"


def _one(settings: Settings, parsed: Namespace, name: str) -> _Answer:
    path = f"{PATH}/{quote(name, safe='')}"
    if parsed.action == "show":
        data = _data(ask(settings, path))
        return _Answer(data, list(_shown(read_as(data, dict[str, object]))))
    is_dry = parsed.action in DELETES and not parsed.yes
    sent = {"action": parsed.action, "dry_run": is_dry, "wait_s": parsed.wait}
    try:
        data = _data(ask(settings, f"{path}/actions", "POST", msgspec.json.encode(sent)))
    except RoostError as error:
        if len(parsed.ids) == 1:
            raise
        told = f"{in_one_line(name)}: {error.failure.message}"
        return _Answer({"id": name, "error": error.failure.message}, [told], 1)
    said = "would be erased; --yes does it" if is_dry else f"{parsed.action}: done"
    return _Answer(data, [f"{in_one_line(name)}  {said}"])


def _shown(state: dict[str, object]) -> Iterator[str]:
    for name, value in state.items():
        yield f"{name:<22} {in_one_line('-' if value is None else str(value))}"


def _pruned(settings: Settings, parsed: Namespace) -> _Answer:
    selector: dict[str, object] = {"kind": "filter"}
    if parsed.ids:
        selector = {"kind": "ids", "ids": parsed.ids}
    elif parsed.all:
        selector = {"kind": "all", "confirm": True}
    else:
        named = {"model_id": parsed.model, "tier": parsed.tier}
        selector |= {name: value for name, value in named.items() if value}
        if parsed.older_than is not None:
            before_ms = round(1000 * (time.time() - parsed.older_than))
            selector["older_than_unix_ms"] = before_ms
    node = "" if parsed.node == "all" else parsed.node
    sent = {"selector": selector, "dry_run": not parsed.yes, "node": node}
    data = _data(ask(settings, f"{PATH}/prune", "POST", msgspec.json.encode(sent)))
    return _Answer(data, list(_gone(read_as(data, _Pruned))), 1 if _is_partial(data) else 0)


def _is_partial(data: object) -> bool:
    pruned = read_as(data, _Pruned)
    return bool(pruned.failed or (pruned.silent and not pruned.dry_run))


def _gone(pruned: _Pruned) -> Iterator[str]:
    size = options.human_bytes(pruned.bytes)
    many = len(pruned.selected)
    if pruned.dry_run:
        yield f"{many} would be erased, {size}; --yes does it"
        yield from (f"  {in_one_line(name)}" for name in pruned.selected)
    else:
        yield f"{len(pruned.erased)} of {many} erased, {size} in all"
    yield from (f"  {in_one_line(one.id)} stays: {one.why}" for one in pruned.skipped)
    yield from (f"  {in_one_line(one.id)} is still there: {one.why}" for one in pruned.failed)
    yield from (f"{in_one_line(node)} did not answer" for node in pruned.silent)
