"""VALUE: a conversation that outlives its requests: where its KV is, and what was said in it."""

from __future__ import annotations

import msgspec

from roost.core.compacted import Compacted, Trigger
from roost.core.ids import ConversationKey, ModelId, NodeId, TenantId
from roost.core.pin import Pin
from roost.core.request import Message


class SaidTurn(msgspec.Struct, frozen=True):
    """One turn as its client saw it: what it asked, and what reached it of the answer.

    `complete` is False where the answer was cut short. `name` is what the client calls the
    conversation, and `at_unix_s` the end of the turn in seconds since 1970.
    """

    key: ConversationKey
    tenant: TenantId
    name: str
    pin: Pin
    asked: str
    answered: str
    complete: bool
    at_unix_s: float


class Summary(msgspec.Struct, frozen=True):
    """What stands for the first `covers` turns of a conversation where its model goes on with it.

    It was made when there were `turns` turns, for `trigger`, and spared the model `dropped_tokens`.
    An empty `text` stands for turns that are simply left out.
    """

    text: str
    covers: int
    turns: int
    trigger: Trigger
    dropped_tokens: int


class KeptConversation(msgspec.Struct, frozen=True):
    """What is kept of a conversation: its messages, oldest first, and where its KV was last.

    `messages` are what was said behind the first `skipped` turns, two for a turn; `summary` stands
    for the first turns towards the model, `skipped` ones at least. `pin.tokens` are those of the
    past as the model gets it.
    """

    pin: Pin
    began_unix_s: float
    active_unix_s: float
    messages: tuple[Message, ...]
    summary: Summary | None = None
    skipped: int = 0

    @property
    def turns(self) -> int:
        """How many turns were said."""
        return self.skipped + len(self.messages) // 2

    @property
    def covered(self) -> int:
        """How many of them the model does not get."""
        return 0 if self.summary is None else self.summary.covers

    def said(self, since: int, until: int | None = None) -> tuple[Message, ...]:
        """Give the messages of the turns from `since` on, before `until`, counted from 0."""
        end = None if until is None else 2 * (until - self.skipped)
        return self.messages[2 * (since - self.skipped) : end]

    @property
    def compacted(self) -> Compacted | None:
        """What the next turn is told of the last compaction, where it is the first one since."""
        made = self.summary
        if made is None or made.turns != self.turns:
            return None
        return Compacted(made.trigger, made.dropped_tokens)


class ConversationView(msgspec.Struct, frozen=True):
    """A conversation as people see it in a list: no text of it."""

    tenant: TenantId
    name: str
    model: ModelId
    node: NodeId
    turns: int
    tokens: int
    began_unix_s: float
    active_unix_s: float


class Listed(msgspec.Struct, frozen=True):
    """The list as a gateway sends it."""

    conversations: tuple[ConversationView, ...]
