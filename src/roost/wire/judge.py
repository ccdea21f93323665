"""DECIDER: what is wrong with a well-formed message, in words; the failures a link ends with."""

from __future__ import annotations

import math
from collections.abc import Iterator

from roost.core.about import NodeAbout
from roost.core.snapshots import NodeStatus
from roost.errors import Failure
from roost.wire.messages import Hello, Open, Order, StateOrder, StatesTold, Status

_NAME_MAX = 128
_LISTED_MAX = 256
_ID_EXTRA = frozenset("._-:")


def about_hello(message: Hello) -> str | None:
    """A complaint about a node's introduction, or None."""
    plain = _is_id(message.node) and _is_name(message.name)
    return None if plain else "introduced itself with an unusable id or name"


def about_status(message: Status, last_seq: int | None) -> str | None:
    """A complaint about a report that follows the one numbered `last_seq`, or None."""
    if last_seq is not None and message.seq != last_seq + 1:
        return "skipped or repeated a status"
    return None if _is_plausible(message.status) else "reported impossible numbers"


def about_open(message: Open) -> str | None:
    """A complaint about the numbers of an Open, or None."""
    if message.credit < 0:
        return "opened a stream with negative credit"
    if message.deadline_s is not None and not math.isfinite(message.deadline_s):
        return "opened a stream with a deadline that is no number"
    return None


def about_states(message: StatesTold) -> str | None:
    """A complaint about the numbers of what a node says of its states, or None."""
    for one in message.states:
        if min(one.tokens, one.size_bytes or 0) < 0:
            return "told of a state with impossible numbers"
        if not (_is_span(one.idle_s) and _is_span(one.expires_in_s)):
            return "told of a state with impossible times"
    return None


def about_order(message: Order | StateOrder) -> str | None:
    """A complaint about the numbers of an order, or None."""
    usable = math.isfinite(message.wait_s) and message.wait_s >= 0
    return None if usable else "gave an order with a wait that is no time"


def broken(peer: str, complaint: str) -> Failure:
    """The peer (`node` or `gateway`) did what it may not."""
    return Failure("upstream_error", f"the {peer} broke the link protocol: it {complaint}")


def _is_id(text: str) -> bool:
    """Whether an id is safe in headers, metrics and logs."""
    if not 0 < len(text) <= _NAME_MAX:
        return False
    return text.isascii() and all(c.isalnum() or c in _ID_EXTRA for c in text)


def _is_name(text: str) -> bool:
    return len(text) <= _NAME_MAX and text.isprintable()


def _is_plausible(status: NodeStatus) -> bool:
    counts = [status.in_flight, status.max_in_flight]
    counts += [n for offer in status.models for n in (offer.slots, offer.ctx, offer.size_bytes)]
    counts += [n for one in status.pulls or () for n in (one.done_bytes, one.total_bytes or 0)]
    counts += _of_about(status.about) if status.about is not None else ()
    counts += [slot.tokens for runtime in status.runtimes for slot in runtime.slots]
    return min(counts) >= 0 and all(map(_is_span, _figures(status)))


def _of_about(about: NodeAbout) -> Iterator[int]:
    """Numbers of what a node says of itself; so many of anything are one too many."""
    memory, processor = about.memory, about.processor
    lists = (about.devices, about.backends, about.runtimes, processor.features)
    yield from (_LISTED_MAX - len(one) for one in lists)
    yield from (processor.cores, processor.usable, processor.physical or 0)
    yield from (memory.total_bytes or 0, memory.available_bytes or 0, memory.free_bytes or 0)
    yield from (memory.limit_bytes or 0, memory.used_bytes or 0)
    yield from (memory.swap_total_bytes or 0, memory.swap_free_bytes or 0)
    yield from (size or 0 for one in about.devices for size in (one.total_bytes, one.free_bytes))
    yield from (n or 0 for one in about.runtimes for n in (one.live, one.rss_bytes))


def _figures(status: NodeStatus) -> Iterator[float | None]:
    """Everything of a report that a gateway calculates with."""
    for runtime in status.runtimes:
        yield from (runtime.load_s, runtime.progress, runtime.resident_s, runtime.idle_s)
        yield from (runtime.evict_in_s, runtime.unload_in_s)
        if runtime.vitals is not None:
            yield from (runtime.vitals.prefill_last_s, runtime.vitals.prefill_avg_s)
            yield from (runtime.vitals.decode_tokens_per_s, runtime.vitals.generated_tokens)
            yield runtime.vitals.failures
    for load in status.loads or ():
        yield load.in_s
    if status.about is not None:
        yield status.about.processor.quota
        for figures in status.about.runtimes:
            yield from (figures.prefill_tokens_per_s, figures.decode_tokens_per_s)


def _is_span(value: float | None) -> bool:
    """Whether it is unknown, or a finite number from 0."""
    return value is None or (math.isfinite(value) and value >= 0)
