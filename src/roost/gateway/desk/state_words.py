"""DECIDER: what operators ask about states of conversations, which are meant, and how it is told.

An id is the node's and the state's own, with a dot between them; it is looked up in what nodes have
told and is never part of a path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple
from urllib.parse import parse_qs

import msgspec

from roost.core.ids import NodeId
from roost.core.state_views import IDS_MAX, StateAction, StateTier, StateView
from roost.errors import fail
from roost.gateway.control_words import LIMITS
from roost.gateway.desk.bodies import read_json

PAGE_MAX = LIMITS["max_page_size"]
WAIT_MAX_S = 600.0
ACTIONS: dict[str, StateAction] = {
    "save": "save",
    "restore": "promote",
    "promote": "promote",
    "demote": "demote",
    "evict": "erase",
    "erase": "erase",
    "pin": "pin",
    "unpin": "unpin",
}
"""What callers say, and what nodes are told; system 3's words and roost's own."""
TIERS: dict[str, tuple[str, ...]] = {"promote": ("ram",), "demote": ("ram", "disk")}


class Found(NamedTuple):
    """A state and where it is."""

    node: NodeId
    view: StateView

    @property
    def id(self) -> str:
        """Its name for the whole fleet."""
        return f"{self.node}.{self.view.id}"


class Listing(NamedTuple):
    """Which states are asked for, and which page of them."""

    node: str = ""
    model: str = ""
    tier: str = ""
    limit: int = PAGE_MAX
    after: str = ""


class Act(msgspec.Struct, frozen=True):
    """The body of an action; nothing is done unless `dry_run` is false."""

    action: str
    target_tier: str | None = None
    dry_run: bool = True
    wait_s: float = 5.0
    allow_experimental: bool = False


class Selector(msgspec.Struct, frozen=True):
    """Which states go: named ones, those of a kind, or with `confirm` all."""

    kind: Literal["ids", "filter", "all"]
    ids: tuple[str, ...] = ()
    model_id: str | None = None
    tier: StateTier | None = None
    older_than_unix_ms: int | None = None
    confirm: bool = False


class Prune(msgspec.Struct, frozen=True):
    """The body of a prune; nothing is done unless `dry_run` is false. `node` is one, "" for all."""

    selector: Selector
    dry_run: bool = True
    node: str = ""


def listing_of(query: bytes) -> Listing:
    """Read the query of a list; raises `bad_request`."""
    asked = {name: values[-1] for name, values in parse_qs(query.decode("latin-1")).items()}
    unknown = asked.keys() - set(Listing._fields)
    if unknown:
        message = f"A list of states has no {min(unknown)!r}; it has {', '.join(Listing._fields)}."
        raise fail("bad_request", message[:200], param="query")
    digits = asked.pop("limit", str(PAGE_MAX))
    limit = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0
    if not 1 <= limit <= PAGE_MAX:
        raise fail("bad_request", f"`limit` is from 1 to {PAGE_MAX}.", param="limit")
    return Listing(**asked, limit=limit)


def act_of(body: bytes) -> Act:
    """Read the body of an action; raises `bad_request`, or `unsupported` for a tier."""
    act = read_json(body, Act, '{"action": "pin", "dry_run": false}')
    if act.action not in ACTIONS:
        message = f"`action` is one of {', '.join(ACTIONS)}."
        raise fail("bad_request", message, param="action")
    if act.target_tier is not None and act.target_tier not in TIERS.get(ACTIONS[act.action], ()):
        message = "Slots are filled by the next turn of a conversation, and by nothing else."
        if act.target_tier != "vram":
            message = f"`{act.action}` has no such `target_tier`."
        raise fail("unsupported", message, param="target_tier")
    if not 0 <= act.wait_s <= WAIT_MAX_S:
        message = f"`wait_s` is from 0 to {WAIT_MAX_S:g} seconds."
        raise fail("bad_request", message, param="wait_s")
    return act


def prune_of(body: bytes) -> Prune:
    """Read the body of a prune; raises `bad_request`."""
    prune = read_json(body, Prune, '{"selector": {"kind": "filter", "model_id": "m"}}')
    selector = prune.selector
    if selector.kind == "ids" and not 1 <= len(selector.ids) <= IDS_MAX:
        raise fail("bad_request", f"`ids` are from 1 to {IDS_MAX}.", param="selector.ids")
    filters = (selector.model_id, selector.tier, selector.older_than_unix_ms)
    if selector.kind == "filter" and all(one is None for one in filters):
        message = "A filter has `model_id`, `tier` or `older_than_unix_ms`."
        raise fail("bad_request", message, param="selector")
    if selector.kind == "all" and not selector.confirm:
        message = 'To have all go, say so: "confirm": true.'
        raise fail("bad_request", message, param="selector.confirm")
    return prune


def page_of(states: Iterable[Found], asked: Listing) -> tuple[list[Found], str | None]:
    """Give the page that is asked for, and where the next one begins."""
    fits = [
        one
        for one in sorted(states, key=lambda one: one.id)
        if asked.model in ("", one.view.model)
        and asked.tier in ("", one.view.tier)
        and one.id > asked.after
    ]
    page = fits[: asked.limit]
    return page, page[-1].id if len(fits) > len(page) else None


def selected(states: Iterable[Found], selector: Selector, now_unix_ms: int) -> list[Found]:
    """Give the states that are meant."""
    found = list(states)
    if selector.kind == "ids":
        return [one for one in found if one.id in selector.ids]
    if selector.kind == "all":
        return found
    return [
        one
        for one in found
        if selector.model_id in (None, one.view.model)
        and selector.tier in (None, one.view.tier)
        and _is_older(one.view, selector.older_than_unix_ms, now_unix_ms)
    ]


def why_kept(one: Found) -> str:
    """Say why a prune leaves a state alone; "" where it does not."""
    if one.view.pinned:
        return "pinned"
    return "" if one.view.status == "ready" else one.view.status


def shown(one: Found, now_unix_ms: int) -> dict[str, object]:
    """Write a state down: what nobody knows is null, and times are of the clock on the wall."""
    view = one.view
    used_ms = None if view.idle_s is None else now_unix_ms - round(1000 * view.idle_s)
    ends_ms = None if view.expires_in_s is None else now_unix_ms + round(1000 * view.expires_in_s)
    return {
        "id": one.id,
        "node": one.node,
        "model": view.model,
        "tier": view.tier,
        "status": view.status,
        "tenant": view.tenant,
        "tokens": view.tokens,
        "bytes": view.size_bytes,
        "last_accessed_unix_ms": used_ms,
        "expires_unix_ms": ends_ms,
        "pinned": view.pinned,
        "reusable": view.reusable,
    }


def parts_of(name: str) -> tuple[NodeId, str]:
    """Take an id apart."""
    node, _, state = name.rpartition(".")
    return NodeId(node), state


def _is_older(view: StateView, than_unix_ms: int | None, now_unix_ms: int) -> bool:
    if than_unix_ms is None:
        return True
    return view.idle_s is not None and now_unix_ms - 1000 * view.idle_s < than_unix_ms
