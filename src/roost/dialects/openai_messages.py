"""DECIDER: the messages of a chat, in all the forms that clients write them."""

from __future__ import annotations

from roost.core.request import Message, Role
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, described
from roost.errors import fail

MESSAGES_MAX = 20_000

# `developer` is the newer name of `system`, `function` the older one of `tool`.
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_KNOWN = frozenset({"role", "content", "name", "tool_call_id", "refusal"})
# Parts that a model of text cannot read: the answer must not pretend that it had seen them.
_OTHER_MEDIA = frozenset(
    {"image_url", "input_image", "image", "input_audio", "audio", "video_url", "file", "input_file"}
)
_TEXT_PARTS = {"text": "text", "refusal": "refusal"}


def read_messages(body: JsonObject) -> tuple[tuple[Message, ...], set[str]]:
    """Read the conversation; also return the names of fields in it that had no effect.

    Calls of tools in the history are among these: their results are read, the calls are not.
    Raises `bad_request` naming the message and field, `unsupported` for parts that are not text.
    """
    value = body.get("messages")
    if not isinstance(value, list):
        raise fields.wrong("messages", "an array of messages", value)
    if not 1 <= len(value) <= MESSAGES_MAX:
        message = f"'messages' must hold 1 to {MESSAGES_MAX} messages, got {len(value)}."
        raise fail("bad_request", message, param="messages")
    ignored: set[str] = set()
    messages = tuple(_message(entry, f"messages[{n}]", ignored) for n, entry in enumerate(value))
    return messages, {f"messages[].{name}" for name in ignored}


def _message(entry: object, path: str, ignored: set[str]) -> Message:
    if not isinstance(entry, dict):
        raise fields.wrong(path, "an object", entry)
    role = _role(entry, path)
    name = fields.text(entry, "name", f"{path}.")
    if not _KNOWN.issuperset(entry):
        ignored |= {n for n, value in entry.items() if value is not None and n not in _KNOWN}
    return Message(role, _content(entry.get("content"), role, f"{path}.content"), name)


def _role(entry: JsonObject, path: str) -> Role:
    role = entry.get("role")
    if isinstance(role, str) and role in _ROLES:
        return _ROLES[role]
    got = f"'{role[:50]}'" if isinstance(role, str) else described(role)
    known = ", ".join(sorted(_ROLES))
    raise fail("bad_request", f"The role {got} is not one of {known}.", param=f"{path}.role")


def _content(value: object, role: Role, path: str) -> str:
    if isinstance(value, str):
        return value
    if value is None and role == "assistant":
        return ""
    if isinstance(value, list):
        return "".join(_part(part, f"{path}[{n}]") for n, part in enumerate(value))
    raise fields.wrong(path, "a string or an array of parts", value)


def _part(part: object, path: str) -> str:
    if not isinstance(part, dict):
        raise fields.wrong(path, "an object", part)
    kind = part.get("type")
    if not isinstance(kind, str):
        raise fields.wrong(f"{path}.type", "a string", kind)
    if kind in _OTHER_MEDIA:
        message = f"The model reads text only; parts of the type '{kind}' are not supported."
        raise fail("unsupported", message, param=path)
    key = _TEXT_PARTS.get(kind)
    if key is None:
        message = f"The part type '{kind[:50]}' is unknown; use 'text'."
        raise fail("bad_request", message, param=f"{path}.type")
    text = part.get(key)
    if not isinstance(text, str):
        raise fields.wrong(f"{path}.{key}", "a string", text)
    return text
