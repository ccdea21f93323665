"""VALUE: OpenAI's responses and their events."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from roost.dialects.openai.envelope import Fact
from roost.dialects.shapes.openai import Limit, Stop
from roost.dialects.shapes.shared import (
    Count,
    Json,
    Penalty,
    Probability,
    RoostWishes,
    Temperature,
)

Status: TypeAlias = Literal[
    "queued", "in_progress", "completed", "incomplete", "failed", "cancelled"
]


class ResponseRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Items that are to be answered."""

    model: str | None = None
    input: str | Annotated[list[Json], msgspec.Meta(min_length=1)]
    instructions: str | None = None
    max_output_tokens: Limit | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1, le=1_000_000)] | None = None
    min_p: Probability | None = None
    seed: int | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[str, float] | None = None
    stop: Stop | None = None
    stream: bool | None = None
    tools: list[Json] | None = None
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Json | None = None
    text: Json | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    prompt_cache_key: str | None = None
    roost: RoostWishes | None = None


class OutputText(msgspec.Struct, tag_field="type", tag="output_text", forbid_unknown_fields=True):
    """Text."""

    text: str
    annotations: list[Json]
    logprobs: list[Json]


class ReasoningText(
    msgspec.Struct, tag_field="type", tag="reasoning_text", forbid_unknown_fields=True
):
    """A thought."""

    text: str


class MessageItem(msgspec.Struct, tag_field="type", tag="message", forbid_unknown_fields=True):
    """What was said."""

    id: str
    status: Status
    role: Literal["assistant"]
    content: list[OutputText]


class ReasoningItem(msgspec.Struct, tag_field="type", tag="reasoning", forbid_unknown_fields=True):
    """What was thought."""

    id: str
    summary: list[Json]
    content: list[ReasoningText]


class CallItem(msgspec.Struct, tag_field="type", tag="function_call", forbid_unknown_fields=True):
    """A call; `arguments` is JSON in a text."""

    id: str
    status: Status
    call_id: str
    name: str
    arguments: str


Item: TypeAlias = MessageItem | ReasoningItem | CallItem


class ResponseErrorDetail(msgspec.Struct, forbid_unknown_fields=True):
    """Why a response failed."""

    code: str
    message: str


class Incomplete(msgspec.Struct, forbid_unknown_fields=True):
    """Why a response is not complete."""

    reason: Literal["max_output_tokens"]


class InputDetails(msgspec.Struct, forbid_unknown_fields=True):
    """How much of the input needed no prefill."""

    cached_tokens: Count
    cache_write_tokens: Count


class OutputDetails(msgspec.Struct, forbid_unknown_fields=True):
    """How much of the output was thought."""

    reasoning_tokens: Count


class ResponseUsage(msgspec.Struct, forbid_unknown_fields=True):
    """What was counted."""

    input_tokens: Count
    input_tokens_details: InputDetails
    output_tokens: Count
    output_tokens_details: OutputDetails
    total_tokens: Count


class Response(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A response, in whatever state."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Status
    background: bool
    error: ResponseErrorDetail | None
    incomplete_details: Incomplete | None
    instructions: str | None
    metadata: dict[str, str]
    model: str
    output: list[Item]
    parallel_tool_calls: bool
    previous_response_id: str | None
    store: bool
    temperature: float | None
    text: Json
    tool_choice: str
    tools: list[Json]
    top_p: float | None
    truncation: Literal["disabled"]
    usage: ResponseUsage | None
    roost: dict[str, Fact] | None = None


class Deleted(msgspec.Struct, forbid_unknown_fields=True):
    """A response is gone."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class InputItems(msgspec.Struct, forbid_unknown_fields=True):
    """What a response was asked."""

    object: Literal["list"]
    data: list[Json]
    has_more: Literal[False]


class _Event(msgspec.Struct, tag_field="type", forbid_unknown_fields=True):
    sequence_number: Count


class ResponseCreated(_Event, tag="response.created"):
    """The first event."""

    response: Response


class ResponseInProgress(_Event, tag="response.in_progress"):
    """The second event."""

    response: Response


class ItemAdded(_Event, tag="response.output_item.added"):
    """An item begins."""

    output_index: Count
    item: Item


class ItemDone(_Event, tag="response.output_item.done"):
    """An item is whole."""

    output_index: Count
    item: Item


class _Placed(_Event):
    item_id: str
    output_index: Count
    content_index: Literal[0]


class PartAdded(_Placed, tag="response.content_part.added"):
    """A part begins."""

    part: OutputText | ReasoningText


class PartDone(_Placed, tag="response.content_part.done"):
    """A part is whole."""

    part: OutputText | ReasoningText


class OutputTextDelta(_Placed, tag="response.output_text.delta"):
    """More of a text."""

    delta: str
    logprobs: list[Json]


class OutputTextDone(_Placed, tag="response.output_text.done"):
    """A text is whole."""

    text: str
    logprobs: list[Json]


class ReasoningDelta(_Placed, tag="response.reasoning_text.delta"):
    """More of a thought."""

    delta: str


class ReasoningDone(_Placed, tag="response.reasoning_text.done"):
    """A thought is whole."""

    text: str


class ArgumentsDelta(_Event, tag="response.function_call_arguments.delta"):
    """More of a call's arguments."""

    item_id: str
    output_index: Count
    delta: str


class ArgumentsDone(_Event, tag="response.function_call_arguments.done"):
    """A call is whole."""

    item_id: str
    output_index: Count
    name: str
    arguments: str


class ResponseCompleted(_Event, tag="response.completed"):
    """The end of a complete response."""

    response: Response


class ResponseIncomplete(_Event, tag="response.incomplete"):
    """The end of a response that met its limit."""

    response: Response


class ResponseFailed(_Event, tag="response.failed"):
    """The end of a response that failed."""

    response: Response


ResponseEvent: TypeAlias = (
    ResponseCreated
    | ResponseInProgress
    | ItemAdded
    | ItemDone
    | PartAdded
    | PartDone
    | OutputTextDelta
    | OutputTextDone
    | ReasoningDelta
    | ReasoningDone
    | ArgumentsDelta
    | ArgumentsDone
    | ResponseCompleted
    | ResponseIncomplete
    | ResponseFailed
)
