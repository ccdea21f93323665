"""VALUE: what the translation of one worker of system 1 asks its shell for, and what it hears.

A stream has at most one call at a time; nothing is heard of a call that was hung up.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from roost.core.ids import ModelId, RequestId, StreamId
from roost.core.request import Sampling
from roost.dialects.system1.worker import Mode
from roost.dialects.system1.worker_calls import Denied, Prefilled, Said
from roost.errors import Failure
from roost.wire.messages import FromNode


class Say(msgspec.Struct, frozen=True):
    """Tell the gateway, over the link."""

    message: FromNode


class Prefill(msgspec.Struct, frozen=True):
    """Have a turn put into a session."""

    stream: StreamId
    session: str
    model: ModelId
    mode: Mode
    prompt: str
    max_tokens: int


class Decode(msgspec.Struct, frozen=True):
    """Have a session answer."""

    stream: StreamId
    session: str
    max_tokens: int
    sampling: Sampling
    stop: tuple[str, ...]


class HangUp(msgspec.Struct, frozen=True):
    """End the stream's call by closing its connection."""

    stream: StreamId


class Pause(msgspec.Struct, frozen=True):
    """Read no more of the stream's answer for now."""

    stream: StreamId


class Resume(msgspec.Struct, frozen=True):
    """Read it again."""

    stream: StreamId


class Delete(msgspec.Struct, frozen=True):
    """Remove a session; `on_deleted` follows, whatever the worker says."""

    session: str


class Note(msgspec.Struct, frozen=True):
    """Log that numbers of an answer do not follow each other."""

    request: RequestId
    session: str
    wanted: int
    got: int


class Lose(msgspec.Struct, frozen=True):
    """The worker is gone: end the link with this."""

    failure: Failure


ForeignEffect: TypeAlias = Say | Prefill | Decode | HangUp | Pause | Resume | Delete | Note | Lose


class Began(msgspec.Struct, frozen=True):
    """An answer has begun, if only with its head."""


class Pieces(msgspec.Struct, frozen=True):
    """More of an answer has come."""

    said: tuple[Said, ...]


class Ended(msgspec.Struct, frozen=True):
    """An answer has come to the end of its body, as HTTP marks it."""


class Lost(msgspec.Struct, frozen=True):
    """The call has no answer, or not a whole one: the connection is gone, or speaks no HTTP."""


Heard: TypeAlias = Prefilled | Denied | Began | Pieces | Ended | Lost
"""What comes of a call: a prefill's result; an answer's beginning, pieces and end; or neither."""
