"""MACHINE: nodes that are to be left: by an operator's word, or because they end.

    at work ── drain ──▶ leaving ── its conversations are elsewhere ──▶ vacant
       ▲                    │                                             │
       └──────── undrain ───┴──────────────── undrain ────────────────────┘

A node that is being left gets nothing new. Once nobody will come back to what it holds it is told
so, keeps nothing idle, and reports that it has no sessions: then it may be stopped.
"""

from __future__ import annotations

from roost.core.ids import NodeId
from roost.fleet.books import Books
from roost.fleet.effects import Report, Vacate


class Leaving:
    """What operators, and nodes themselves, want of nodes."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def nodes(self) -> tuple[NodeId, ...]:
        """Those whose conversations have to go elsewhere; also one that has gone since."""
        return tuple(node.id for node in self._books.registry.all() if node.draining)

    def park(self, node: NodeId, *, parked: bool) -> None:
        """An operator wants a node to get nothing new, or to get work again."""
        books, record = self._books, self._books.registry.get(node)
        if not books.registry.park(node, parked=parked) or record is None:
            return
        books.prospects.board.reshape()
        reason = "drained" if parked else "undrained"
        books.out.append(Report("node_state", node=node, reason=reason))
        if record.vacated:
            record.vacated = False
            books.out.append(Vacate(node, vacant=False))

    def handed_over(self, node: NodeId) -> None:
        """Nobody will come back to what this node holds, as long as it is being left."""
        record = self._books.registry.get(node)
        if record is None or not record.parked or not record.linked or record.vacated:
            return
        if record.status is not None and record.status.vacant is not None:
            record.vacated = True
            self._books.out += [
                Vacate(node, vacant=True),
                Report("node_state", node=node, reason="handed_over"),
            ]
