"""DECIDER: the page made of one look at a gateway: a title, a summary, what is odd, five tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

import msgspec

from roost.cli.dashboard.feed import Feed, Happening, Hint, Node, Row, Runtime
from roost.cli.dashboard.tables import (
    Cell,
    Column,
    Line,
    Look,
    NodeTarget,
    RequestTarget,
    RuntimeTarget,
    Table,
)
from roost.cli.dashboard.words import (
    UNKNOWN,
    bar,
    clipped,
    count,
    duration,
    percent,
    rate,
    share,
    sparkline,
)
from roost.text.screen import in_one_line

BAR = 8
KV_FULL = 0.9
HINTS = 2
_STATES: dict[str, Look] = {
    "alive": "good",
    "ready": "good",
    "streaming": "good",
    "prefill": "good",
    "suspect": "warn",
    "stale": "warn",
    "draining": "warn",
    "loading": "warn",
    "waiting": "warn",
    "cancelled": "dim",
    "done": "dim",
    "length": "dim",
    "tool_calls": "dim",
    "absent": "dim",
    "dead": "bad",
    "failed": "bad",
    "error": "bad",
}
_LEVELS: dict[str, Look] = {"debug": "dim", "info": "", "warning": "warn", "error": "bad"}
_IDS = frozenset({"request", "job"})
_PRESSURES: dict[str, Look] = {"soft": "warn", "hard": "bad", "emergency": "bad"}


class Standing(msgspec.Struct, frozen=True):
    """What is known beside the last look.

    `gone` says why the gateway does not answer, `gone_s` since when; "" while it does. `rates` are
    tokens a second of the last looks, oldest first.
    """

    url: str
    gone: str = ""
    gone_s: float = 0.0
    paused: bool = False
    live_only: bool = False
    rates: tuple[float, ...] = ()


class Page(NamedTuple):
    """Everything that is shown; `notes` are what is odd or wrong, the worst first."""

    title: str
    summary: str
    notes: tuple[Cell, ...]
    nodes: Table
    runtimes: Table
    requests: Table
    queue: Table
    events: Table

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables, in the order in which they are shown."""
        return (self.nodes, self.runtimes, self.requests, self.queue, self.events)


def page_of(feed: Feed | None, standing: Standing, zone: tzinfo | None = None) -> Page:
    """Make the page; `feed` None is before the first answer. Times are shown in `zone`."""
    known = Feed() if feed is None else feed
    untold = "" if known.counts_requests or feed is None else "not told by this gateway"
    nodes, observed = known.fleet.nodes, known.observed
    rows = [row for row in observed.requests if row.is_live or not standing.live_only]
    names = {node.id: node.name or node.id for node in nodes}
    requests = tuple(_request(row, names) for row in rows)
    return Page(
        _title(known, standing),
        _summary(known, standing) if feed is not None else "",
        tuple(_notes(observed.anomalies, standing)),
        Table("nodes", f"nodes {len(nodes)}", NODES, _nodes(nodes), "no node has joined"),
        Table("runtimes", "runtimes", RUNTIMES, _runtimes(nodes), "no model is loaded"),
        Table("requests", _counted(rows), REQUESTS, requests, untold or "no request"),
        Table(
            "queue",
            f"queue {observed.queue.length}",
            QUEUE,
            _queue(known),
            untold or "nobody waits",
        ),
        Table(
            "events",
            "events",
            EVENTS,
            _events(observed.events, zone),
            untold or "nothing has happened",
        ),
    )


# --- above the tables


def _title(feed: Feed, standing: Standing) -> str:
    words = ["roost top", standing.url]
    if feed.observed.role:
        words += [feed.observed.role, f"up {duration(feed.observed.uptime_seconds)}"]
    if standing.paused:
        words.append("PAUSED")
    return "  ".join(words)


def _summary(feed: Feed, standing: Standing) -> str:
    if not feed.counts_requests:
        return "This gateway stands in front of other servers, and tells of no requests."
    totals, rows = feed.observed.totals, feed.observed.requests
    states = [row.state for row in rows]
    first = sorted(r.first_output_seconds for r in rows if r.first_output_seconds is not None)
    parts = [
        f"{rate(feed.tokens_per_s)} tok/s {sparkline(standing.rates, 12)}".rstrip(),
        f"{states.count('prefill') + states.count('streaming')} run",
        f"{feed.observed.queue.length} wait",
        f"TTFT {duration(first[len(first) // 2]) if first else UNKNOWN}",
        f"{count(totals.completed)} done",
        f"{count(totals.errors)} failed",
        f"{count(totals.cancelled)} cancelled",
    ]
    return "  ".join(parts)


def _notes(hints: Sequence[Hint], standing: Standing) -> Iterator[Cell]:
    if standing.gone:
        since = f"no answer for {duration(standing.gone_s)}, trying again"
        yield Cell(f"{since}: {in_one_line(standing.gone)}", "bad")
    for hint in hints[:HINTS]:
        where = " ".join(in_one_line(one) for one in (hint.node, hint.model) if one)
        yield Cell(in_one_line(f"odd: {hint.kind} {where}: {hint.text}"), "warn")
    if len(hints) > HINTS:
        yield Cell(f"odd: {len(hints) - HINTS} more", "warn")


# --- nodes

NODES = (
    Column("NODE", 0, 6, 24),
    Column("STATE", 1, 5, 8),
    Column("BUSY", 2, 4, 7, right=True),
    Column("TOK/S", 3, 5, 6, right=True),
    Column("MEMORY", 4, BAR + 5, 28),
    Column("MODELS", 5, 8, 60),
    Column("LOAD", 6, 4, 5, right=True),
    Column("ID", 7, 6, 40),
)


def _nodes(nodes: Sequence[Node]) -> tuple[Line, ...]:
    return tuple(
        Line(f"n {node.id}", tuple(_node(node)), NodeTarget(node.id, node.draining))
        for node in nodes
    )


def _node(node: Node) -> Iterator[Cell]:
    gone = node.state == "dead"
    state = "draining" if node.draining and not gone else node.state
    yield Cell(node.name or node.id, "dim" if gone else "strong")
    yield Cell(state, _STATES.get(state, ""))
    most = str(node.max_in_flight) if node.max_in_flight else UNKNOWN
    yield Cell(f"{node.in_flight}/{most}")
    paces = [one.vitals.decode_tokens_per_s for one in node.runtimes if one.vitals is not None]
    known = [pace for pace in paces if pace is not None]
    yield Cell(rate(sum(known)) if known and not gone else UNKNOWN)
    yield _memory(node)
    loaded = {one.model for one in node.runtimes if one.runtime is not None}
    yield Cell(", ".join(sorted(loaded)) or f"none of {len(node.models)} loaded", "")
    yield Cell(UNKNOWN if node.load_1m is None else f"{node.load_1m:.1f}")
    yield Cell(node.id, "dim")


def _memory(node: Node) -> Cell:
    """Show the fullest of a node's memories."""
    devices = node.memory.devices if node.memory is not None else ()
    shares = []
    for device in devices:
        if device.capacity_bytes and device.available_bytes is not None:
            used = device.capacity_bytes - device.available_bytes
            shares.append((share(used, device.capacity_bytes) or 0.0, device))
    if not shares:
        return Cell(UNKNOWN)
    filled, device = max(shares, key=lambda one: one[0])
    text = f"{bar(filled, BAR)} {percent(filled).strip()} {device.name}"
    return Cell(text, _PRESSURES.get(device.pressure, ""))


# --- runtimes

RUNTIMES = (
    Column("MODEL", 0, 12, 40),
    Column("NODE", 1, 8, 16),
    Column("STATE", 2, 5, 12),
    Column("SLOTS", 3, 5, 7, right=True),
    Column("KV", 4, BAR + 13, 26),
    Column("TOK/S", 5, 5, 6, right=True),
    Column("PREFILL", 6, 7, 7, right=True),
    Column("WAIT", 8, 4, 5, right=True),
    Column("FAILED", 9, 6, 6, right=True),
    Column("BACKEND", 10, 7, 14),
    Column("ODD", 7, 8, 32),
)


def _runtimes(nodes: Sequence[Node]) -> tuple[Line, ...]:
    shown = [
        (node, runtime)
        for node in nodes
        for runtime in node.runtimes
        if node.state != "dead" and (runtime.runtime is not None or runtime.state != "absent")
    ]
    return tuple(
        Line(
            f"r {node.id} {runtime.model}",
            tuple(_runtime(node, runtime)),
            RuntimeTarget(node.id, runtime.model),
        )
        for node, runtime in shown
    )


def _runtime(node: Node, runtime: Runtime) -> Iterator[Cell]:
    vitals = runtime.vitals
    loading = f" {runtime.progress:.0%}" if runtime.progress is not None else ""
    busy = sum(slot.busy for slot in runtime.slots)
    yield Cell(runtime.model, "strong")
    yield Cell(node.name or node.id)
    yield Cell(f"{runtime.state}{loading}", _STATES.get(runtime.state, ""))
    yield Cell(f"{busy}/{len(runtime.slots)}" if runtime.slots else UNKNOWN)
    yield _kv(runtime)
    yield Cell(rate(vitals.decode_tokens_per_s) if vitals else UNKNOWN)
    yield Cell(duration(vitals.prefill_avg_s) if vitals else UNKNOWN)
    yield Cell(str(runtime.waiting))
    yield Cell(str(vitals.failures) if vitals else UNKNOWN)
    yield Cell(runtime.backend or UNKNOWN, "dim")
    odd = ", ".join(vitals.anomalies) if vitals else ""
    yield Cell(odd or (runtime.failure or ""), "warn" if odd else "bad")


def _kv(runtime: Runtime) -> Cell:
    """Show how much of its slots' room a runtime holds."""
    room = len(runtime.slots) * runtime.ctx
    held = sum(slot.tokens for slot in runtime.slots)
    filled = share(held, room)
    if filled is None:
        return Cell(UNKNOWN)
    text = f"{bar(filled, BAR)} {percent(filled).strip()} {count(held)}/{count(room)}"
    return Cell(text, "warn" if filled >= KV_FULL else "")


# --- requests

REQUESTS = (
    Column("REQUEST", 0, 8, 9),
    Column("TENANT", 4, 10, 24),
    Column("MODEL", 3, 10, 32),
    Column("NODE", 5, 8, 16),
    Column("PHASE", 1, 12, 28),
    Column("AGE", 2, 4, 6, right=True),
    Column("SINCE", 8, 5, 6, right=True),
    Column("TOKENS", 7, 6, 6, right=True),
    Column("TOK/S", 6, 5, 6, right=True),
    Column("PROMPT", 9, 6, 12, right=True),
    Column("FIRST", 10, 5, 6, right=True),
    Column("CACHE", 11, 8, 40),
)


def _counted(rows: Sequence[Row]) -> str:
    live = sum(row.is_live for row in rows)
    return f"requests {live} live" + (f", {len(rows) - live} ended" if live < len(rows) else "")


def _request(row: Row, names: Mapping[str, str]) -> Line:
    target = RequestTarget(row.id, row.tenant, row.model) if row.is_live else None
    return Line(f"q {row.id}", tuple(_row(row, names)), target)


def _row(row: Row, names: Mapping[str, str]) -> Iterator[Cell]:
    ended: Look = "" if row.is_live else "dim"
    yield Cell(row.id, ended or "strong")
    yield Cell(row.tenant or UNKNOWN, ended)
    yield Cell(row.model, ended)
    yield Cell(names.get(row.node or "", row.node or UNKNOWN), ended)
    # Words say more of it than its state, but not once it answers.
    words = row.doing if row.doing and row.state != "streaming" else row.state
    yield Cell(words, _STATES.get(row.state, ""))
    yield Cell(duration(row.elapsed_seconds), ended)
    yield Cell(duration(row.phase_seconds), ended)
    yield Cell(count(row.output_tokens), ended)
    yield Cell(rate(_pace(row)), ended)
    cached = f"({count(row.cached_tokens)})" if row.cached_tokens else ""
    yield Cell(f"{count(row.prompt_tokens)}{cached}", ended)
    yield Cell(duration(row.first_output_seconds), ended)
    yield Cell(row.cache_miss, ended or "warn")


def _pace(row: Row) -> float | None:
    """Return tokens a second: of the whole answer, or of what there is of it."""
    if row.decode_tokens_per_second is not None:
        return row.decode_tokens_per_second
    if row.state != "streaming" or row.output_tokens is None or row.phase_seconds <= 0:
        return None
    return row.output_tokens / row.phase_seconds


# --- the line, and what has happened

QUEUE = (
    Column("TENANT", 0, 8, 40),
    Column("WAIT", 1, 4, 5, right=True),
    Column("RUN", 2, 3, 4, right=True),
    Column("OLDEST", 3, 6, 6, right=True),
    Column("TOKENS", 4, 6, 6, right=True),
)


def _queue(feed: Feed) -> tuple[Line, ...]:
    lines = [
        Line(
            f"t {one.tenant}",
            (
                Cell(one.tenant, "strong"),
                Cell(str(one.waiting), "warn" if one.waiting else ""),
                Cell(str(one.running)),
                Cell(duration(one.oldest_seconds)),
                Cell(count(one.cost_tokens)),
            ),
        )
        for one in feed.observed.queue.tenants
    ]
    if left_out := feed.observed.queue.left_out:
        blank = Cell("")
        lines.append(Line("t", (Cell(f"and {left_out} more", "dim"), blank, blank, blank, blank)))
    return tuple(lines)


EVENTS = (
    Column("TIME", 1, 8, 8),
    Column("EVENT", 0, 12, 20),
    Column("FACTS", 2, 10, 120),
)


def _events(events: Sequence[Happening], zone: tzinfo | None) -> tuple[Line, ...]:
    return tuple(
        Line(
            f"e {one.id}",
            (
                Cell(datetime.fromtimestamp(one.at_ms / 1000, zone).strftime("%H:%M:%S"), "dim"),
                Cell(one.event, _LEVELS.get(one.level, "")),
                Cell(_facts(one)),
            ),
        )
        for one in events
    )


def _facts(one: Happening) -> str:
    times = f"{one.times} times, last " if one.times > 1 else ""
    # An id is long and says least: what it is about, and why, is seen first.
    facts = sorted(one.facts.items(), key=lambda fact: fact[0] in _IDS)
    return times + " ".join(f"{name}={clipped(str(fact), 60)}" for name, fact in facts)
