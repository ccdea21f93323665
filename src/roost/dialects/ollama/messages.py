"""DECIDER: the messages of Ollama's /api/chat.

Calls have no ids in this API, and results say of which tool they are, if that. A result belongs to
the first call of its tool that has none yet, or without a name to the first call that has none.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from roost.core.request import Message, Role, ToolCall
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, described
from roost.dialects.openai.messages import MESSAGES_MAX
from roost.dialects.openai.options import unknown_names
from roost.dialects.openai.tools import read_calls
from roost.errors import fail

_KNOWN = frozenset(
    {"role", "content", "images", "tool_calls", "tool_name", "tool_call_id", "name", "thinking"}
)
_ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
Ignore = Callable[[str], None]


def read_messages(sent: JsonObject, ignore: Ignore) -> tuple[Message, ...]:
    """Read the conversation; names of fields in it that had no effect are told to `ignore`.

    None and [] are none. Raises `bad_request` naming message and field, `unsupported` for images.
    """
    value = sent.get("messages")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise fields.wrong("messages", "an array of messages", value)
    if len(value) > MESSAGES_MAX:
        message = f"'messages' may hold {MESSAGES_MAX} messages, got {len(value)}."
        raise fail("bad_request", message, param="messages")
    pairing = _Pairing()
    return tuple(
        pairing.paired(_message(entry, f"messages[{number}]", ignore))
        for number, entry in enumerate(value)
    )


def refuse_images(sent: JsonObject, path: str = "") -> None:
    """Refuse pictures, which models here cannot see: none and [] are no pictures."""
    images = sent.get("images")
    if images is None or images == []:
        return
    if not isinstance(images, list):
        raise fields.wrong(f"{path}images", "a list", images)
    message = f"The model reads text only; '{path}images' is not supported."
    raise fail("unsupported", message, param=f"{path}images")


class _Pairing:
    """Gives ids to calls that have none, and finds the calls that results are of."""

    def __init__(self) -> None:
        self._open: list[ToolCall] = []
        self._count = 0

    def paired(self, message: Message) -> Message:
        """Return the message with ids wherever they can be known."""
        if message.calls:
            calls = tuple(map(self._named, message.calls))
            self._open = list(calls)
            return msgspec.structs.replace(message, calls=calls)
        if message.role != "tool":
            return message
        found = next((call for call in self._open if _fits(message, call)), None)
        if found is None:
            return message
        self._open.remove(found)
        return msgspec.structs.replace(message, call_id=found.id)

    def _named(self, call: ToolCall) -> ToolCall:
        self._count += 1
        return call if call.id else msgspec.structs.replace(call, id=f"call_{self._count}")


def _fits(result: Message, call: ToolCall) -> bool:
    if result.call_id is not None:
        return result.call_id == call.id
    return result.name is None or result.name == call.name


def _message(entry: object, path: str, ignore: Ignore) -> Message:
    if not isinstance(entry, dict):
        raise fields.wrong(path, "an object", entry)
    where = f"{path}."
    role = entry.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        got = f"'{role[:50]}'" if isinstance(role, str) else described(role)
        message = f"The role {got} is not one of {', '.join(sorted(_ROLES))}."
        raise fail("bad_request", message, param=f"{where}role")
    for unknown in unknown_names(entry, _KNOWN):
        ignore(f"messages[].{unknown}")
    refuse_images(entry, where)
    content = fields.text(entry, "content", where) or ""
    name = fields.text(entry, "name", where)
    if role == "assistant":
        calls = read_calls({"tool_calls": entry.get("tool_calls")}, where, ignore)
        thought = fields.text(entry, "thinking", where) or ""
        return Message(_ROLES[role], content, name, reasoning=thought, calls=calls)
    if role == "tool":
        tool = fields.text(entry, "tool_name", where) or name
        call_id = fields.text(entry, "tool_call_id", where)
        return Message(_ROLES[role], content, tool or None, call_id=call_id or None)
    return Message(_ROLES[role], content, name)
