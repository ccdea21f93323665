"""VALUE: Anthropic's messages, their events and their errors."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from roost.dialects.openai.envelope import Fact
from roost.dialects.shapes.shared import Count, Json, Probability, RoostWishes, Temperature

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class MessageSent(msgspec.Struct):
    """One turn; blocks are text, thinking, tool_use, tool_result and documents of plain text."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Json]


class ToolSent(msgspec.Struct, omit_defaults=True):
    """A tool; types that others run are left out."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    description: str | None = None
    input_schema: Json | None = None
    type: Literal["custom"] | None = None


class MessageRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A conversation that is to be gone on with, or counted."""

    model: str | None = None
    messages: Annotated[list[MessageSent], msgspec.Meta(min_length=1)]
    system: str | list[Json] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    stop_sequences: Annotated[list[str], msgspec.Meta(max_length=16)] | None = None
    stream: bool | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    tools: list[ToolSent] | None = None
    tool_choice: Json | None = None
    thinking: Json | None = None
    output_config: Json | None = None
    metadata: Json | None = None
    roost: RoostWishes | None = None


class MessageUsage(msgspec.Struct, forbid_unknown_fields=True):
    """What was counted; what was cached of the prompt is counted apart."""

    input_tokens: Count
    cache_creation_input_tokens: Count
    cache_read_input_tokens: Count
    output_tokens: Count


class TextBlock(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    """Text."""

    text: str


class ThinkingBlock(msgspec.Struct, tag_field="type", tag="thinking", forbid_unknown_fields=True):
    """A thought."""

    thinking: str
    signature: str


class ToolUseBlock(msgspec.Struct, tag_field="type", tag="tool_use", forbid_unknown_fields=True):
    """A call."""

    id: str
    name: str
    input: Json


Block: TypeAlias = TextBlock | ThinkingBlock | ToolUseBlock


class MessageReply(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The answer, whole, or as it begins."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Block]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage
    roost: dict[str, Fact] | None = None


class MessageCount(msgspec.Struct, forbid_unknown_fields=True):
    """How long a prompt is."""

    input_tokens: Count


class Ping(msgspec.Struct, tag_field="type", tag="ping", forbid_unknown_fields=True):
    """A sign of life."""


class MessageStart(
    msgspec.Struct, tag_field="type", tag="message_start", forbid_unknown_fields=True
):
    """The first event but pings."""

    message: MessageReply


class BlockStart(
    msgspec.Struct, tag_field="type", tag="content_block_start", forbid_unknown_fields=True
):
    """A block begins, empty."""

    index: Count
    content_block: Block


class TextDelta(msgspec.Struct, tag_field="type", tag="text_delta", forbid_unknown_fields=True):
    """More of a text."""

    text: str


class ThinkingDelta(
    msgspec.Struct, tag_field="type", tag="thinking_delta", forbid_unknown_fields=True
):
    """More of a thought."""

    thinking: str


class InputDelta(
    msgspec.Struct, tag_field="type", tag="input_json_delta", forbid_unknown_fields=True
):
    """More of a call's arguments, as text."""

    partial_json: str


class BlockDelta(
    msgspec.Struct, tag_field="type", tag="content_block_delta", forbid_unknown_fields=True
):
    """More of the open block."""

    index: Count
    delta: TextDelta | ThinkingDelta | InputDelta


class BlockStop(
    msgspec.Struct, tag_field="type", tag="content_block_stop", forbid_unknown_fields=True
):
    """The open block ends."""

    index: Count


class End(msgspec.Struct, forbid_unknown_fields=True):
    """Why the answer ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(
    msgspec.Struct,
    tag_field="type",
    tag="message_delta",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """The end, and what was counted."""

    delta: End
    usage: MessageUsage
    roost: dict[str, Fact] | None = None


class MessageStop(msgspec.Struct, tag_field="type", tag="message_stop", forbid_unknown_fields=True):
    """Nothing follows."""


class AnthropicDetail(msgspec.Struct, forbid_unknown_fields=True):
    """What went wrong."""

    type: str
    message: str


class AnthropicError(msgspec.Struct, tag_field="type", tag="error", forbid_unknown_fields=True):
    """A failure, as Anthropic's clients read it; also as the last event of a stream."""

    error: AnthropicDetail
    request_id: str


MessageEvent: TypeAlias = (
    Ping
    | MessageStart
    | BlockStart
    | BlockDelta
    | BlockStop
    | MessageDelta
    | MessageStop
    | AnthropicError
)
