"""DECIDER: the input of /v1/responses: items become the turns of a chat.

A run of reasoning, text and calls is one assistant's turn. Items of tools that others run cannot be
told to a model here; they are left out by name, and the results of such tools with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from roost.core.request import Message, Role, ToolCall
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, described
from roost.dialects.openai.messages import MESSAGES_MAX
from roost.dialects.openai.options import unknown_names
from roost.dialects.openai.tools import read_arguments, read_name
from roost.errors import RoostError, fail

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_TEXTS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
}
_MEDIA = frozenset({"input_image", "input_file", "input_audio", "image", "file"})
_KNOWN = frozenset(
    {"type", "id", "status", "role", "content", "call_id", "name", "arguments", "output", "summary"}
    | {"encrypted_content"}
)
_OTHERS = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "computer_call", "mcp_call"}
    | {"image_generation_call", "local_shell_call", "mcp_list_tools", "mcp_approval_request"}
    | {"computer_call_output", "local_shell_call_output", "mcp_approval_response"}
)
Ignore = Callable[[str], None]


def read_input(sent: JsonObject, ignore: Ignore) -> tuple[Message, ...]:
    """Read `input`, a string or a list of items; names of what had no effect go to `ignore`.

    Raises `bad_request` naming the item, `unsupported` for what is not text.
    """
    value = sent.get("input")
    if isinstance(value, str):
        return (Message("user", value),)
    if not isinstance(value, list):
        raise fields.wrong("input", "a string or an array of items", value)
    if not 1 <= len(value) <= MESSAGES_MAX:
        message = f"'input' must hold 1 to {MESSAGES_MAX} items, got {len(value)}."
        raise fail("bad_request", message, param="input")
    turns = Turns()
    for number, item in enumerate(value):
        _read(item, f"input[{number}]", turns, ignore)
    found = turns.done()
    if not found:
        raise fail("bad_request", "'input' says nothing to a model.", param="input")
    return found


class Turns:
    """Puts items together to turns."""

    def __init__(self) -> None:
        self._turns: list[Message] = []
        self._said: list[str] = []
        self._thought: list[str] = []
        self._calls: list[ToolCall] = []

    def other(self, message: Message) -> None:
        """Add a turn that is not the assistant's."""
        self._end()
        self._turns.append(message)

    def said(self, text: str) -> None:
        """Add to what the assistant said; behind a call that is the next turn."""
        if self._calls:
            self._end()
        self._said.append(text)

    def thought(self, text: str) -> None:
        """Add to what it thought; behind anything else that is the next turn."""
        if self._calls or self._said:
            self._end()
        self._thought.append(text)

    def called(self, call: ToolCall) -> None:
        """Add a call."""
        self._calls.append(call)

    def done(self) -> tuple[Message, ...]:
        """Return all turns."""
        self._end()
        return tuple(self._turns)

    def _end(self) -> None:
        said, thought, calls = "".join(self._said), "".join(self._thought), tuple(self._calls)
        if said or calls:
            turn = Message("assistant", said, reasoning=thought, calls=calls)
            self._turns.append(turn)
        self._said, self._thought, self._calls = [], [], []


def _read(item: object, path: str, turns: Turns, ignore: Ignore) -> None:
    if not isinstance(item, dict):
        raise fields.wrong(path, "an object", item)
    kind = item.get("type", "message" if "role" in item else None)
    for name in unknown_names(item, _KNOWN):
        ignore(f"input[].{name}")
    match kind:
        case "message":
            _message(item, path, turns)
        case "function_call":
            where = f"{path}."
            arguments = read_arguments(item.get("arguments"), f"{where}arguments")
            call_id = _call_id(item, where)
            turns.called(ToolCall(call_id, read_name(item, where), arguments))
        case "function_call_output":
            text = _texts(item.get("output"), f"{path}.output")
            turns.other(Message("tool", text, call_id=_call_id(item, f"{path}.")))
        case "reasoning":
            turns.thought(_reasoning(item, path))
        case str() if kind in _OTHERS:
            ignore(f"input[].{kind}")
        case _:
            raise _unknown(kind, path)


def _message(item: JsonObject, path: str, turns: Turns) -> None:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        got = f"'{role[:50]}'" if isinstance(role, str) else described(role)
        known = ", ".join(sorted(_ROLES))
        raise fail("bad_request", f"The role {got} is not one of {known}.", param=f"{path}.role")
    text = _texts(item.get("content"), f"{path}.content")
    if role == "assistant":
        turns.said(text)
    else:
        turns.other(Message(_ROLES[role], text))


def _call_id(item: JsonObject, path: str) -> str:
    call_id = fields.text(item, "call_id", path)
    if not call_id:
        raise fields.wrong(f"{path}call_id", "the id of a call", call_id)
    return call_id


def _reasoning(item: JsonObject, path: str) -> str:
    """Read thoughts: those that were told, else their summary; what is encrypted is nobody's."""
    for name in ("content", "summary"):
        parts = item.get(name)
        if isinstance(parts, list) and parts:
            return _texts(parts, f"{path}.{name}")
    return ""


def _texts(value: object, path: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise fields.wrong(path, "a string or an array of parts", value)
    return "\n\n".join(_text(part, f"{path}[{number}]") for number, part in enumerate(value))


def _text(part: object, path: str) -> str:
    if not isinstance(part, dict):
        raise fields.wrong(path, "an object", part)
    kind = part.get("type")
    if isinstance(kind, str) and kind in _TEXTS:
        text = part.get(_TEXTS[kind])
        if not isinstance(text, str):
            raise fields.wrong(f"{path}.{_TEXTS[kind]}", "a string", text)
        return text
    if isinstance(kind, str) and kind in _MEDIA:
        message = f"The model reads text only; parts of the type '{kind}' are not supported."
        raise fail("unsupported", message, param=path)
    raise _unknown(kind, path)


def _unknown(kind: object, path: str) -> RoostError:
    if not isinstance(kind, str):
        return fields.wrong(f"{path}.type", "a string", kind)
    message = f"Items of the type '{kind[:50]}' cannot be read here."
    return fail("unsupported", message, param=f"{path}.type")


_encode = msgspec.json.Encoder().encode


def as_items(messages: Sequence[Message]) -> bytes:
    """Encode turns as a JSON list of input items, as they are told back."""
    items: list[dict[str, object]] = []
    for number, one in enumerate(messages):
        name = f"msg_in_{number}"
        if one.role == "tool":
            output = {"type": "function_call_output", "id": name, "call_id": one.call_id or ""}
            items.append({**output, "output": one.content, "status": "completed"})
            continue
        if one.content:
            kind = "output_text" if one.role == "assistant" else "input_text"
            part = {"type": kind, "text": one.content}
            said = {"type": "message", "id": name, "status": "completed", "role": one.role}
            items.append({**said, "content": [part]})
        items += [
            {
                "type": "function_call",
                "id": f"fc_in_{number}_{place}",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "status": "completed",
            }
            for place, call in enumerate(one.calls)
        ]
    return _encode(items)
