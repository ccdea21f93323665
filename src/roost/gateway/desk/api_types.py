"""VALUE: bodies of roost's own addresses, as far as no other type has them already."""

from __future__ import annotations

from typing import Literal

import msgspec

from roost.core.conversation import ConversationView
from roost.core.snapshots import OrderKind
from roost.dialects.shapes.shared import Json
from roost.fleet.watching.views import NodeView, PlacementView, QueueView, Statistics


class Healthy(msgspec.Struct, frozen=True):
    """The process lives."""

    status: Literal["ok"]


class Ready(msgspec.Struct, frozen=True):
    """A request could be served."""

    status: Literal["ready"]


class Fleet(msgspec.Struct, frozen=True):
    """Every node, with its models, runtimes and slots, the queue, and other names of models."""

    nodes: list[NodeView]
    statistics: Statistics
    aliases: dict[str, str]


class Placement(msgspec.Struct, frozen=True):
    """For each model where it runs, and what a load would cost."""

    models: list[PlacementView]


class Queue(msgspec.Struct, frozen=True):
    """Who waits, in order; a tenant sees its own requests."""

    length: int
    requests: list[QueueView]


class Conversations(msgspec.Struct, frozen=True):
    """Conversations that are kept; no word of them."""

    conversations: list[ConversationView]


class Removed(msgspec.Struct, frozen=True):
    """No word of it is left."""

    removed: Literal[True]


class PullTold(msgspec.Struct, frozen=True):
    """A pull has begun; reports name it by its `job`."""

    node: str
    job: str


class ProtocolVersion(msgspec.Struct, frozen=True):
    """Of the control protocol."""

    major: int
    minor: int


class Enveloped(msgspec.Struct, frozen=True):
    """An answer of the control protocol."""

    protocol: ProtocolVersion
    request_id: str
    data: Json


class ControlDetail(msgspec.Struct, frozen=True):
    """What went wrong."""

    code: str
    message: str
    retryable: bool


class ControlError(msgspec.Struct, frozen=True):
    """A failure of the control protocol."""

    protocol: ProtocolVersion
    request_id: str
    error: ControlDetail


class CoordinatorError(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failure, as system 1's clients read it."""

    error: str
    reason: str
    request_id: str
    message: str | None = None
    param: str | None = None
    tried: list[str] | None = None


class OrderAsked(msgspec.Struct, frozen=True):
    """What an operator sends: `force` unloads what is in use, `wait_s` waits until it is not."""

    model: str
    force: bool = False
    wait_s: float = 0.0
    answer_s: float = 30.0


class OrderTold(msgspec.Struct, frozen=True):
    """What the caller hears of his order."""

    node: str
    job: str
    model: str
    what: OrderKind
    done: bool


class PullAsked(msgspec.Struct, frozen=True):
    """What an operator sends: `source` is what `roost pull` takes, but no path."""

    source: str
    file: str = ""
    accept_licence: bool = False
