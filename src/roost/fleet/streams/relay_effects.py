"""VALUE: everything a relay can ask for.

`Send` and `KeepAlive` occupy the client's writer until `on_written`. Exactly one of `Done`,
`Reject`, `Break` and `Abandon` ends a relay, and nothing comes after it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.core.events import StreamEvent
from roost.errors import Failure


class Commit(msgspec.Struct, frozen=True):
    """Status 200 and the headers are decided; they go out with what follows in the same list."""


class Mark(msgspec.Struct, frozen=True):
    """Between two events: here another node went on with the answer; `text` is for people."""

    text: str


class Send(msgspec.Struct, frozen=True):
    """Write these events in order; the last one may be `Finished`. Marks only where it streams.

    `dropped` pieces of text that came before them are not among them and never come: that many
    were too much for a reader who wants it so.
    """

    events: tuple[StreamEvent | Mark, ...]
    dropped: int = 0


class KeepAlive(msgspec.Struct, frozen=True):
    """Write a sign of life that says what the request waits for; the text may be empty."""

    text: str


class Grant(msgspec.Struct, frozen=True):
    """Give the node credit for this many more `Events` messages of the current attempt."""

    messages: int


class Seal(msgspec.Struct, frozen=True):
    """The client has the whole text: keep it, and say `on_sealed`: then it hears the end."""


class Done(msgspec.Struct, frozen=True):
    """The ending of a complete answer: every byte was taken by the writer."""


class Reject(msgspec.Struct, frozen=True):
    """The ending before any byte: the failure's real status and its body."""

    failure: Failure


class Break(msgspec.Struct, frozen=True):
    """The ending after the first byte: one error event, then an end that is not a clean one."""

    failure: Failure


class Abandon(msgspec.Struct, frozen=True):
    """The ending without a reader: drop the connection and have the coordinator stop the work."""

    reason: Literal["client_gone", "write_timeout"]


RelayEffect: TypeAlias = Commit | Send | KeepAlive | Grant | Seal | Done | Reject | Break | Abandon
