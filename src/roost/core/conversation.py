"""VALUE: a conversation that outlives its requests: where its KV is, and what was said in it."""

from __future__ import annotations

import msgspec

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


class KeptConversation(msgspec.Struct, frozen=True):
    """What is kept of a conversation: its messages, oldest first, and where its KV was last."""

    pin: Pin
    began_unix_s: float
    active_unix_s: float
    messages: tuple[Message, ...]


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
