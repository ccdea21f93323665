"""MACHINE: conversations of nodes that are being left: a few at once are computed anew elsewhere.

    idle there ── Move ──▶ moving ── on_moved ──▶ elsewhere
                             │
                             ╰── nothing is kept, or nobody takes it ──▶ tried again, then left

KV goes to no other node, words do: a conversation is handed over by having what was said in it
computed where its next turn will go. It is taken like a turn takes it, and only while nobody talks
in it; a turn that comes meanwhile waits for it, for no longer than it would have computed itself.
Whatever cannot be handed over is not lost: its next turn is computed anew then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

import msgspec

from roost.core.ids import ConversationKey, NodeId, RequestId
from roost.core.pin import Pin
from roost.fleet.conversations.effects import ConversationEffect
from roost.fleet.conversations.registry import Conversations

WHY = "home_drained"
"""What the next turn of a conversation that was handed over is told."""


class HandoverSettings(msgspec.Struct, frozen=True):
    """Limits: `at_once` conversations are moved at a time, each within `wait_s`, `tries` times.

    Nodes that are being left are looked at every `look_s`, one that had nothing to move again after
    `rest_s`; whoever could not be moved is tried again `retry_s` later.
    """

    at_once: int = 2
    tries: int = 3
    wait_s: float = 60.0
    retry_s: float = 5.0
    look_s: float = 1.0
    rest_s: float = 10.0


class Move(msgspec.Struct, frozen=True):
    """Have this conversation computed anew on another node; `on_moved` says what came of it."""

    job: RequestId
    key: ConversationKey
    pin: Pin


class Emptied(msgspec.Struct, frozen=True):
    """Nobody comes back to what this node holds, as far as that could be brought about."""

    node: NodeId


HandoverEffect: TypeAlias = Move | Emptied


class Handover:
    """Empties the nodes of one gateway that are being left."""

    def __init__(
        self,
        settings: HandoverSettings,
        conversations: Conversations,
        new_id: Callable[[], RequestId],
    ) -> None:
        self._settings = settings
        self._conversations = conversations
        self._new_id = new_id
        self._moving: dict[RequestId, tuple[ConversationKey, NodeId]] = {}
        self._tried: dict[ConversationKey, tuple[NodeId, int, float]] = {}
        self._rests: dict[NodeId, float] = {}

    @property
    def moving(self) -> int:
        """How many conversations are being moved."""
        return len(self._moving)

    def on_look(self, leaving: Collection[NodeId], now: float) -> list[HandoverEffect]:
        """Time has passed, or a node has begun to leave: move whoever can be moved."""
        self._tried = {key: one for key, one in self._tried.items() if one[0] in leaving}
        self._rests = {node: until_s for node, until_s in self._rests.items() if node in leaving}
        out: list[HandoverEffect] = []
        for node in leaving:
            out += self._look_at(node, now)
        return out

    def _look_at(self, node: NodeId, now: float) -> list[HandoverEffect]:
        """Move whoever is idle there and may be moved; a look goes through all conversations."""
        free = self._settings.at_once - len(self._moving)
        if now < self._rests.get(node, 0.0) or free <= 0:
            return []
        left = [key for key in self._conversations.on_node(node) if not self._is_given_up(key)]
        due = [key for key in left if now >= self._due_s(key)]
        out: list[HandoverEffect] = [self._begin(key, node) for key in due[:free]]
        if not left and all(there != node for _, there in self._moving.values()):
            self._rests[node] = now + self._settings.rest_s
            out.append(Emptied(node))
        return out

    def on_moved(self, job: RequestId, pin: Pin | None, now: float) -> list[ConversationEffect]:
        """A conversation is where `pin` says, or could not be moved: None."""
        key, node = self._moving.pop(job)
        if pin is None:
            tries = self._tried[key][1] if key in self._tried else 0
            self._tried[key] = node, tries + 1, now + self._settings.retry_s
        else:
            self._tried.pop(key, None)
            pin = msgspec.structs.replace(pin, moved=WHY)
        return self._conversations.on_ended(job, pin, now)

    def on_nothing_kept(self, job: RequestId, now: float) -> list[ConversationEffect]:
        """Nobody knows what was said in a conversation, so nobody can compute it anew."""
        key, node = self._moving.pop(job)
        self._tried[key] = node, self._settings.tries, now
        return self._conversations.on_ended(job, None, now)

    def _is_given_up(self, key: ConversationKey) -> bool:
        return key in self._tried and self._tried[key][1] >= self._settings.tries

    def _due_s(self, key: ConversationKey) -> float:
        return self._tried[key][2] if key in self._tried else 0.0

    def _begin(self, key: ConversationKey, node: NodeId) -> Move:
        pin, job = self._conversations.pin(key), self._new_id()
        taken = self._conversations.on_work(key, job)
        assert taken, "whoever is idle can be taken"
        assert pin is not None, "whoever is on a node has a pin"
        self._moving[job] = key, node
        return Move(job, key, pin)
