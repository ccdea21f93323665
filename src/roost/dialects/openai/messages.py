"""DECIDER: the messages of a chat, in all the forms that clients write them."""

from __future__ import annotations

from roost.core.request import Message, Role
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, described
from roost.dialects.openai.tools import read_calls
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
FIELDS = frozenset(
    {"role", "content", "name", "tool_call_id", "refusal", "tool_calls", "function_call"}
    | {"reasoning_content", "reasoning"}
)
# Parts that a model of text cannot read: the answer must not pretend that it had seen them.
_OTHER_MEDIA = frozenset(
    {"image_url", "input_image", "image", "input_audio", "audio", "video_url", "file", "input_file"}
)
_TEXT_PARTS = {"text": "text", "refusal": "refusal"}


def read_messages(body: JsonObject) -> tuple[tuple[Message, ...], set[str]]:
    """Read the conversation; also return the names of fields in it that had no effect.

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
    return messages, ignored


def goes_on(messages: tuple[Message, ...]) -> bool:
    """Whether the last message is the beginning of the answer: an assistant's, after others.

    One rule for every API: the model goes on with it, and what it holds is not said again.
    """
    return len(messages) > 1 and messages[-1].role == "assistant" and not messages[-1].calls


def _message(entry: object, path: str, ignored: set[str]) -> Message:
    if not isinstance(entry, dict):
        raise fields.wrong(path, "an object", entry)
    role = _role(entry, path)
    name = fields.text(entry, "name", f"{path}.")
    if not FIELDS.issuperset(entry):
        unknown = (n for n, value in entry.items() if value is not None and n not in FIELDS)
        ignored.update(f"messages[].{n}" for n in unknown)
    content = _content(entry.get("content"), role, f"{path}.content")
    if role == "assistant":
        where = f"{path}."
        calls = read_calls(entry, where, ignored.add)
        return Message(role, content, name, reasoning=_reasoning(entry), calls=calls)
    if role == "tool":
        return Message(role, content, name, call_id=fields.text(entry, "tool_call_id", f"{path}."))
    return Message(role, content, name)


def _reasoning(entry: JsonObject) -> str:
    """Read thoughts under either of their names; other shapes of them are nobody's business."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(value := entry.get(name), str):
            return value
    return ""


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
