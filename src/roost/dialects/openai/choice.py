"""VALUE: which of a reply's choices a voice speaks, and what all of them share."""

from __future__ import annotations

import msgspec

from roost.dialects.openai.options import ReplyOptions


class Choice(msgspec.Struct, frozen=True):
    """Choice `index` of the reply `reply_id`, begun at `created_s` seconds since 1970.

    One that is `alone` ends the reply; the end of several is told by whoever puts them together.
    It begins with `echo`, where the client wants to see what it sent.
    """

    reply_id: str
    created_s: int
    model: str
    options: ReplyOptions
    index: int = 0
    alone: bool = True
    echo: str = ""
