"""VALUE: the nodes that one request chooses among, and the figures that decide, in columns.

A decision reads a few figures of every node. In columns that is one pass over plain numbers; node
by node it is a walk over objects that costs three times as much.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from roost.core.ids import NodeId

Stage: TypeAlias = Literal["ready", "coming", "cold"]


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A linked node that offers the model, as of the last event that changed it.

    `closed` says why it takes nothing now, "" if it does: unusable, suspect, draining, broken,
    busy; where its runtime is not ready also cold, loading, no_room. `stage` is how far that is.
    `held` of `capacity` places for this model are taken, `in_flight` counts streams of all models,
    `kv_share` is the part of KV reserved or in use (0..1) or None where unknown.
    `picked` counts up with choices, `salt` is the node's own number for hashing.
    With `sure`, the learned figures count: `ahead_s` until a prefill could begin, then seconds per
    prompt token and per answer token.
    `ctx` is the context in tokens and `token_bytes` the longest token, 0 where unknown.
    """

    node: NodeId
    closed: str = ""
    stage: Stage = "ready"
    held: int = 0
    capacity: int = 1
    in_flight: int = 0
    kv_share: float | None = None
    picked: int = 0
    salt: int = 0
    sure: bool = False
    ahead_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    ctx: int = 0
    token_bytes: int = 0


class Field(msgspec.Struct, frozen=True, gc=False):
    """Candidates in a fixed order, each node once; and of those that are open, figures in columns.

    `places` says where each node is among `candidates`, `open` the places of those not closed, in
    order. `ahead_s`, `prefill_s`, `decode_s` and `streams` go with `open`: what load and predicted
    finish are made of. `unsure` counts open ones whose pace is not known.
    Never changed: whoever keeps a field keeps what was known when it was made.
    """

    candidates: Sequence[Candidate] = ()
    places: dict[NodeId, int] = {}
    open: list[int] = []
    unsure: int = 0
    ahead_s: list[float] = []
    prefill_s: list[float] = []
    decode_s: list[float] = []
    streams: list[int] = []

    def get(self, node: NodeId) -> Candidate | None:
        """This node's record."""
        place = self.places.get(node)
        return None if place is None else self.candidates[place]

    def column(self, node: NodeId) -> int | None:
        """Where this node's figures are; None if it is closed or not here."""
        place = self.places.get(node)
        if place is None:
            return None
        column = bisect_left(self.open, place)
        return column if column < len(self.open) and self.open[column] == place else None

    def free(self) -> list[Candidate]:
        """Those that are open, in order."""
        return [self.candidates[place] for place in self.open]

    def only(self, fits: Callable[[Candidate], bool]) -> Field:
        """Those that fit."""
        return field_of(one for one in self.candidates if fits(one))

    def updated(self, records: Iterable[Candidate]) -> Field:
        """The same nodes, some with newer records; as `field_of` would make it, for less."""
        candidates, open_, unsure = [*self.candidates], self.open.copy(), self.unsure
        ahead_s, prefill_s = self.ahead_s.copy(), self.prefill_s.copy()
        decode_s, streams = self.decode_s.copy(), self.streams.copy()
        for one in records:
            place = self.places[one.node]
            at = bisect_left(open_, place)
            if at < len(open_) and open_[at] == place:
                unsure -= not candidates[place].sure
                for column in (open_, ahead_s, prefill_s, decode_s, streams) if one.closed else ():
                    del column[at]
            elif not one.closed:
                for column in (open_, ahead_s, prefill_s, decode_s, streams):
                    column.insert(at, 0)
            candidates[place] = one
            if not one.closed:
                unsure += not one.sure
                open_[at], streams[at] = place, one.in_flight
                ahead_s[at], prefill_s[at], decode_s[at] = one.ahead_s, one.prefill_s, one.decode_s
        return Field(candidates, self.places, open_, unsure, ahead_s, prefill_s, decode_s, streams)


def field_of(candidates: Iterable[Candidate]) -> Field:
    """A field of these, in this order."""
    ordered = [*candidates]
    free = [one for one in ordered if not one.closed]
    return Field(
        candidates=ordered,
        places={one.node: place for place, one in enumerate(ordered)},
        open=[place for place, one in enumerate(ordered) if not one.closed],
        unsure=sum(not one.sure for one in free),
        ahead_s=[one.ahead_s for one in free],
        prefill_s=[one.prefill_s for one in free],
        decode_s=[one.decode_s for one in free],
        streams=[one.in_flight for one in free],
    )
