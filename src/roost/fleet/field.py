"""VALUE: the nodes that one request chooses among, and the figures that decide, in columns.

A decision reads a few figures of every node. In columns that is one pass over plain numbers; node
by node it is a walk over objects that costs three times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

import msgspec

from roost.core.ids import NodeId

FAR = 1e9
"""The score of a node of which nothing is known: after every one that is."""


class Candidate(msgspec.Struct, frozen=True):
    """A linked node that offers the model, as of the last event that changed it.

    `closed` says why it takes nothing now, "" if it does: unusable, suspect, draining, broken,
    busy. `held` of `capacity` places for this model are taken, `in_flight` counts streams of all
    models, `kv_share` is the part of KV reserved or in use (0..1) or None where unknown.
    `picked` counts up with choices, `salt` is the node's own number for hashing.
    With `sure`, the learned figures count: `ahead_s` until a prefill could begin, then seconds per
    prompt token and per answer token.
    `least_ctx` is the context in tokens and `token_bytes` the longest token, 0 where unknown.
    """

    node: NodeId
    closed: str = ""
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


class Field(msgspec.Struct, frozen=True):
    """Candidates in a fixed order, each node once, and their figures at the same places.

    `free` counts those that are not closed, `unsure` those of them whose pace is not known.
    `ahead_s`, `prefill_s`, `decode_s` and `streams` are what the predicted finish and the load are
    made of: infinite first figure and infinite streams where closed, so no score has to ask.
    Never changed: whoever keeps a field keeps what was known when it was made.
    """

    candidates: tuple[Candidate, ...] = ()
    nodes: tuple[NodeId, ...] = ()
    places: dict[NodeId, int] = {}
    free: int = 0
    unsure: int = 0
    ahead_s: list[float] = []
    prefill_s: list[float] = []
    decode_s: list[float] = []
    streams: list[float] = []

    def get(self, node: NodeId) -> Candidate | None:
        """This node's record."""
        place = self.places.get(node)
        return None if place is None else self.candidates[place]

    def only(self, fits: Callable[[Candidate], bool]) -> Field:
        """Those that fit."""
        return field_of(one for one in self.candidates if fits(one))

    def updated(self, records: Iterable[Candidate]) -> Field:
        """The same nodes, some with newer records; as `field_of` would make it, for less."""
        candidates = list(self.candidates)
        ahead_s, prefill_s = self.ahead_s.copy(), self.prefill_s.copy()
        decode_s, streams = self.decode_s.copy(), self.streams.copy()
        free, unsure = self.free, self.unsure
        for one in records:
            place = self.places[one.node]
            old, candidates[place] = candidates[place], one
            free += (not one.closed) - (not old.closed)
            unsure += _counts_unsure(one) - _counts_unsure(old)
            ahead_s[place], prefill_s[place], decode_s[place] = _pace(one)
            streams[place] = inf if one.closed else one.in_flight
        return Field(
            tuple(candidates),
            self.nodes,
            self.places,
            free,
            unsure,
            ahead_s,
            prefill_s,
            decode_s,
            streams,
        )


def field_of(candidates: Iterable[Candidate]) -> Field:
    """A field of these, in this order."""
    ordered = tuple(candidates)
    paces = [_pace(one) for one in ordered]
    return Field(
        candidates=ordered,
        nodes=tuple(one.node for one in ordered),
        places={one.node: place for place, one in enumerate(ordered)},
        free=sum(not one.closed for one in ordered),
        unsure=sum(_counts_unsure(one) for one in ordered),
        ahead_s=[ahead_s for ahead_s, _, _ in paces],
        prefill_s=[prefill_s for _, prefill_s, _ in paces],
        decode_s=[decode_s for _, _, decode_s in paces],
        streams=[inf if one.closed else one.in_flight for one in ordered],
    )


def _counts_unsure(one: Candidate) -> bool:
    return not one.closed and not one.sure


def _pace(one: Candidate) -> tuple[float, float, float]:
    if one.closed:
        return inf, 0.0, 0.0
    return (one.ahead_s, one.prefill_s, one.decode_s) if one.sure else (FAR, 0.0, 0.0)
