"""MACHINE: where work goes while there is a choice, and whether a node is passed over.

Counted are only picks of a node that was busy while others had room: an idle fleet sends everything
to its fastest machine, and is right to.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from roost.core.ids import ModelId, NodeId
from roost.fleet.watching.runtime_views import RuntimeLine

PICKS = 128
PICKS_MIN = 32
MODELS_MAX = 64
DUE_MIN = 8.0
"""Of so many picks that were due to a node by its slots it should have had some."""

SHARE_MIN = 0.25
SLOWER = 0.5
"""A node of less than half of the others' pace is passed over for good reason."""


class Pick(NamedTuple):
    """One choice: when, and which node."""

    at_s: float
    node: NodeId


class Uneven(NamedTuple):
    """A node that had `had` of the last `picks`, though by its slots `due` were its own."""

    model: ModelId
    node: NodeId
    had: int
    due: int
    picks: int


class Picks:
    """Remembers the last picks for each model."""

    def __init__(self) -> None:
        self._models: OrderedDict[ModelId, deque[Pick]] = OrderedDict()

    def on_pick(
        self, model: ModelId, node: NodeId, candidates: int, streams: int, now: float
    ) -> None:
        """A node was chosen of `candidates` with room, while it had `streams` already."""
        if candidates < 2 or streams < 1:
            return
        picks = self._models.setdefault(model, deque(maxlen=PICKS))
        picks.append(Pick(now, node))
        self._models.move_to_end(model)
        if len(self._models) > MODELS_MAX:
            self._models.popitem(last=False)

    def uneven(self, lines: Iterable[RuntimeLine], now: float) -> Iterator[Uneven]:
        """Name the nodes that are passed over; `lines` are the runtimes that may be chosen."""
        runtimes: dict[ModelId, list[RuntimeLine]] = {}
        for line in lines:
            if line.view.state == "ready" and line.view.slots:
                runtimes.setdefault(line.view.model, []).append(line)
        for model, picks in self._models.items():
            yield from _uneven(model, list(picks), runtimes.get(model, []), now)


def _uneven(
    model: ModelId, picks: list[Pick], lines: list[RuntimeLine], now: float
) -> Iterator[Uneven]:
    if len(picks) < PICKS_MIN or len(lines) < 2:
        return
    age_s = now - picks[0].at_s
    had = Counter(pick.node for pick in picks)
    slots = sum(len(line.view.slots) for line in lines)
    best = max(lines, key=lambda line: had[line.node])
    for line in lines:
        due = len(picks) * len(line.view.slots) / slots
        passed_over = due >= DUE_MIN and had[line.node] < SHARE_MIN * due
        was_there = (line.view.resident_s or 0.0) >= age_s
        if passed_over and was_there and not _slower(line, best):
            yield Uneven(model, line.node, had[line.node], round(due), len(picks))


def _slower(line: RuntimeLine, best: RuntimeLine) -> bool:
    """Whether a node's last answers came so much slower that nobody wonders."""
    own = line.figures.decode_tokens_per_s if line.figures is not None else None
    other = best.figures.decode_tokens_per_s if best.figures is not None else None
    return own is not None and other is not None and own < SLOWER * other
