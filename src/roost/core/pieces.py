"""VALUE: what an answer consists of, once its text has been read, in the order of the text.

    Thought* (Text | CallBegin CallArguments+ CallEnd)*

A call is told only when it is whole, so a call that has begun also ends, and its arguments joined
are one JSON object.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Thought(msgspec.Struct, frozen=True):
    """More of what the model thinks before it speaks."""

    text: str


class Text(msgspec.Struct, frozen=True):
    """More of what it says."""

    text: str


class CallBegin(msgspec.Struct, frozen=True):
    """A call of a tool; calls are numbered from 0, and `id` is like no other."""

    index: int
    id: str
    name: str


class CallArguments(msgspec.Struct, frozen=True):
    """More of the JSON object that is given to the tool."""

    index: int
    text: str


class CallEnd(msgspec.Struct, frozen=True):
    """The call is whole."""

    index: int


Piece: TypeAlias = Thought | Text | CallBegin | CallArguments | CallEnd
