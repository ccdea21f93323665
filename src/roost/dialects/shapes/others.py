"""VALUE: questions about tokens, and turns of system 1."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from roost.dialects.openai.envelope import Fact
from roost.dialects.shapes.openai import ChatMessage, Stop, Tool
from roost.dialects.shapes.shared import Count, Ids, Json, RoostWishes


class TokenizeRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A text (`content` bare, `prompt` with a BOS) or a conversation, whose tokens are wanted."""

    model: str | None = None
    content: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    tools: list[Tool] | None = None
    chat_template_kwargs: Json | None = None
    reasoning_effort: str | None = None
    add_special: bool | None = None
    add_special_tokens: bool | None = None
    roost: RoostWishes | None = None


class TokenizeReply(msgspec.Struct, forbid_unknown_fields=True):
    """The tokens, and how many."""

    tokens: Ids
    count: Count


class DetokenizeRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Tokens whose text is wanted."""

    model: str | None = None
    tokens: Annotated[Ids, msgspec.Meta(min_length=1)]
    roost: RoostWishes | None = None


class DetokenizeReply(msgspec.Struct, forbid_unknown_fields=True):
    """The text, by the names of llama.cpp and of vLLM."""

    content: str
    prompt: str


class TemplateRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A conversation, of which is wanted what the model's template makes."""

    model: str | None = None
    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    tools: list[Tool] | None = None
    chat_template_kwargs: Json | None = None
    reasoning_effort: str | None = None
    roost: RoostWishes | None = None


class TemplateReply(msgspec.Struct, forbid_unknown_fields=True):
    """What the template makes."""

    prompt: str


class InferRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One turn of a named conversation; what was said before is kept here."""

    model: str
    prompt: str
    max_tokens: Annotated[int, msgspec.Meta(ge=1)]
    conversation_id: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    stop: Stop | None = None
    roost: RoostWishes | None = None


class InferToken(msgspec.Struct, forbid_unknown_fields=True):
    """More text, with its number."""

    token: str
    seq: Count


class InferEnd(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The last event of a turn."""

    finished: Literal[True]
    reason: Literal["stop", "length", "error", "cancelled"]
    seq: Count
    error: str | None = None
    code: str | None = None
    dropped: Count | None = None
    roost: dict[str, Fact] | None = None
