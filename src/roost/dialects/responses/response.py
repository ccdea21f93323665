"""DECIDER: a response of /v1/responses as JSON: its state, its items, its counts, its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from roost.core.events import Finished, Usage
from roost.core.pieces import CallBegin, Text, Thought
from roost.core.request import Message, ToolCall
from roost.dialects.json_text import clean, escape_line_ends
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.envelope import Fact
from roost.dialects.wishes import Wishes
from roost.errors import Failure

ID_PREFIX = "resp_"

Status: TypeAlias = Literal[
    "queued", "in_progress", "completed", "incomplete", "failed", "cancelled"
]
Json: TypeAlias = dict[str, object]
_encode = msgspec.json.Encoder().encode
_CODES = {
    "context_length_exceeded": "context_length_exceeded",
    "overloaded": "rate_limit_exceeded",
    "queue_full": "rate_limit_exceeded",
}


class Output:
    """The items of a response so far; the id of its `choice` makes theirs like no other's."""

    def __init__(self, choice: Choice) -> None:
        self._unique = choice.reply_id.removeprefix(ID_PREFIX)
        self.items: list[Json] = []
        self._texts: list[str] = []

    def open(self, piece: Thought | Text | CallBegin) -> Json:
        """Begin the item that a piece belongs to."""
        number = len(self.items)
        self._texts = []
        item: Json
        match piece:
            case Thought():
                item = {"type": "reasoning", "id": f"rs_{self._unique}_{number}", "summary": []}
                item["content"] = []
            case Text():
                item = {"type": "message", "id": f"msg_{self._unique}_{number}"}
                item |= {"status": "in_progress", "role": "assistant", "content": []}
            case CallBegin(_, id, name):
                item = {"type": "function_call", "id": f"fc_{self._unique}_{number}"}
                item |= {"status": "in_progress", "call_id": id, "name": name, "arguments": ""}
        self.items.append(item)
        return item

    def add(self, text: str) -> None:
        """Add to the text of the item that is open."""
        self._texts.append(text)

    @property
    def kind(self) -> object:
        """What the last item is."""
        return self.items[-1]["type"]

    def close(self, *, whole: bool) -> tuple[Json, str]:
        """Complete the last item; returns it with its whole text."""
        item, text = self.items[-1], "".join(self._texts)
        status = "completed" if whole else "incomplete"
        if item["type"] == "function_call":
            item |= {"status": status, "arguments": text}
        elif item["type"] == "message":
            item |= {"status": status, "content": [part_of("output_text", text)]}
        else:
            item["content"] = [part_of("reasoning_text", text)]
        return item, text


def ended(choice: Choice, finished: Finished, items: list[Json], facts: Mapping[str, Fact]) -> Json:
    """Return the whole response at its end: completed, or incomplete where it met its limit."""
    status: Status = "completed" if finished.reason == "stop" else "incomplete"
    response = response_of(choice, status, items)
    if status == "incomplete":
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    response["usage"] = usage_of(finished.usage)
    return {**response, "roost": dict(facts)} if facts else response


def failed(choice: Choice, failure: Failure, items: list[Json]) -> Json:
    """Return the response that failed, with what there is of it."""
    response = response_of(choice, "failed", items)
    code = _CODES.get(failure.reason, "server_error")
    response["error"] = {"code": code, "message": clean(failure.message)}
    return response


def response_of(choice: Choice, status: Status, items: list[Json]) -> Json:
    """Return a response in a state; what was asked for is told back."""
    wishes = choice.options.wishes or Wishes()
    return {
        "id": choice.reply_id,
        "object": "response",
        "created_at": choice.created_s,
        "status": status,
        "background": wishes.background,
        "error": None,
        "incomplete_details": None,
        "instructions": wishes.instructions,
        "metadata": wishes.metadata,
        "model": choice.model,
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": wishes.previous or None,
        "store": wishes.keep,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
    }


def usage_of(usage: Usage) -> Json:
    """Return token counts; cached tokens are part of the input's, reasoning of the output's."""
    return {
        "input_tokens": usage.prompt_tokens,
        # Nothing is written to a cache that would have a price of its own.
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def call_prefix(choice: Choice) -> str:
    """Begin the ids of calls: like no other response's, since they must differ."""
    return f"call_{choice.reply_id.removeprefix(ID_PREFIX)}_"


def spoken(output: Iterable[Json]) -> tuple[Message, ...]:
    """Return what the items of an output said, as turns of the conversation that goes on."""
    said, thoughts, calls = "", "", []
    for item in output:
        match item:
            case {"type": "message", "content": [{"text": str(text)}, *_]}:
                said += text
            case {"type": "reasoning", "content": [{"text": str(text)}, *_]}:
                thoughts += text
            case {"type": "function_call", "status": "completed", "call_id": str(call_id)}:
                calls.append(ToolCall(call_id, str(item["name"]), str(item["arguments"])))
    if not said and not calls:
        return ()
    return (Message("assistant", said, reasoning=thoughts, calls=tuple(calls)),)


def part_of(kind: str, text: str) -> Json:
    """Return a part of an item's content."""
    part: Json = {"type": kind, "text": text}
    return {**part, "annotations": [], "logprobs": []} if kind == "output_text" else part


def encoded(value: Json) -> bytes:
    """Write JSON that no line end and no half of a character breaks."""
    try:
        return escape_line_ends(_encode(value))
    except UnicodeEncodeError:
        # Halves of surrogate pairs, which a model can write and no UTF-8 can hold.
        return escape_line_ends(_encode(_cleaned(value)))


def _cleaned(value: object) -> object:
    match value:
        case str():
            return clean(value)
        case list():
            return [_cleaned(one) for one in value]
        case dict():
            return {name: _cleaned(one) for name, one in value.items()}
    return value
