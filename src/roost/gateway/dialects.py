"""WIRING: how each API is spoken: which body is read how, and by which voices it is answered."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from roost.dialects.choice import Choice
from roost.dialects.openai_chat_reply import ChatBody, ChatStream, chat_ends
from roost.dialects.openai_completions_reply import (
    CompletionBody,
    CompletionStream,
    completion_ends,
)
from roost.gateway.chorus import Ends
from roost.gateway.parsing import Api
from roost.gateway.scribe import StreamVoice, WholeVoice


class Dialect(msgspec.Struct, frozen=True):
    """How one API is spoken: the voices of a choice, and how a reply of several ends."""

    name: str
    api: Api
    id_prefix: str
    stream_voice: Callable[[Choice], StreamVoice]
    whole_voice: Callable[[Choice], WholeVoice]
    ends: Callable[[Choice], Ends]


CHAT = Dialect("openai", "chat", "chatcmpl-", ChatStream, ChatBody, chat_ends)
COMPLETIONS = Dialect(
    "openai", "completions", "cmpl-", CompletionStream, CompletionBody, completion_ends
)
