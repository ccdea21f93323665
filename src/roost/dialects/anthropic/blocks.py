"""DECIDER: the messages of Anthropic's API, in all the blocks that clients write them with.

One message of theirs may be several of ours: results of tools are turns of their own here. What a
model of text cannot read is refused where a person sent it, and has a visible place holder where a
tool did: an agent that looked at a picture goes on, and the model knows that it has not seen it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from roost.core.request import Message, ToolCall
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, described
from roost.dialects.openai.messages import MESSAGES_MAX
from roost.dialects.openai.options import unknown_names
from roost.dialects.openai.tools import read_name
from roost.errors import RoostError, fail

BETWEEN = "\n\n"
"""Between blocks of text that make up one message."""

BILLING = "x-anthropic-billing-header:"
"""Claude Code's first line: it changes with every request, and means nothing to a model."""

_KNOWN = frozenset({"role", "content"})
_MEDIA = frozenset({"image", "audio", "video", "file", "container_upload"})
_encode = msgspec.json.Encoder().encode
Ignore = Callable[[str], None]


def read_system(sent: JsonObject) -> tuple[Message, ...]:
    """Read `system`, a string or a list of blocks of text; none where nothing is said in it."""
    value = sent.get("system")
    if value is None:
        return ()
    text = _texts(value, "system")
    return (Message("system", text),) if text else ()


def read_messages(sent: JsonObject, ignore: Ignore) -> tuple[Message, ...]:
    """Read the conversation; names of what had no effect are told to `ignore`.

    Raises `bad_request` naming the message and block, `unsupported` for what is not text.
    """
    value = sent.get("messages")
    if not isinstance(value, list):
        raise fields.wrong("messages", "an array of messages", value)
    if not 1 <= len(value) <= MESSAGES_MAX:
        message = f"'messages' must hold 1 to {MESSAGES_MAX} messages, got {len(value)}."
        raise fail("bad_request", message, param="messages")
    return tuple(
        one
        for number, entry in enumerate(value)
        for one in _message(entry, f"messages[{number}]", ignore)
    )


def _message(entry: object, path: str, ignore: Ignore) -> Iterator[Message]:
    if not isinstance(entry, dict):
        raise fields.wrong(path, "an object", entry)
    content, where = entry.get("content"), f"{path}.content"
    for name in unknown_names(entry, _KNOWN):
        ignore(f"messages[].{name}")
    match entry.get("role"):
        case "system":
            text = _texts(content, where)
            if text:
                yield Message("system", text)
        case "assistant":
            yield _assistant(content, where, ignore)
        case "user":
            yield from _user(content, where)
        case role:
            got = f"'{role[:50]}'" if isinstance(role, str) else described(role)
            message = f"The role {got} is not one of user, assistant, system."
            raise fail("bad_request", message, param=f"{path}.role")


def _user(content: object, path: str) -> Iterator[Message]:
    """Read a person's turn: results of tools come first as turns of their own, in their order."""
    if isinstance(content, str):
        yield Message("user", content)
        return
    texts: list[str] = []
    for block, where in _blocks(content, path):
        if block.get("type") == "tool_result":
            if texts:
                yield Message("user", BETWEEN.join(texts))
                texts = []
            yield _result(block, where)
        else:
            texts.append(_text(block, where))
    if texts:
        yield Message("user", BETWEEN.join(texts))


def _result(block: JsonObject, path: str) -> Message:
    call_id = fields.text(block, "tool_use_id", f"{path}.")
    if not call_id:
        raise fields.wrong(f"{path}.tool_use_id", "the id of a call", call_id)
    content, where = block.get("content"), f"{path}.content"
    if content is None:
        text = ""
    elif isinstance(content, str):
        text = content
    else:
        text = BETWEEN.join(_shown(one, at) for one, at in _blocks(content, where))
    if fields.flag(block, "is_error", f"{path}."):
        text = f"Error: {text}" if text else "Error"
    return Message("tool", text, call_id=call_id)


def _shown(block: JsonObject, path: str) -> str:
    """Read a block of a tool's result; what cannot be read is said to be there."""
    kind = block.get("type")
    if kind in _MEDIA or (kind == "document" and _document(block) is None):
        return f"[{kind} left out: this model reads text only]"
    return _text(block, path)


def _assistant(content: object, path: str, ignore: Ignore) -> Message:
    if isinstance(content, str):
        return Message("assistant", content)
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for block, where in _blocks(content, path):
        match block.get("type"):
            case "thinking":
                thoughts.append(fields.text(block, "thinking", f"{where}.") or "")
            case "redacted_thinking":
                ignore("messages[].content[].redacted_thinking")
            case "tool_use":
                calls.append(_call(block, where))
            case _:
                texts.append(_text(block, where))
    said = "".join(texts)
    return Message("assistant", said, reasoning="".join(thoughts), calls=tuple(calls))


def _call(block: JsonObject, path: str) -> ToolCall:
    where = f"{path}."
    arguments = fields.mapping(block, "input", where)
    call_id = fields.text(block, "id", where) or ""
    return ToolCall(call_id, read_name(block, where), _encode(arguments).decode())


def _text(block: JsonObject, path: str) -> str:
    kind = block.get("type")
    if kind == "text":
        text = block.get("text")
        if not isinstance(text, str):
            raise fields.wrong(f"{path}.text", "a string", text)
        return text
    if kind == "document":
        text = _document(block)
        if text is not None:
            return text
    if not isinstance(kind, str):
        raise fields.wrong(f"{path}.type", "a string", kind)
    if kind in _MEDIA or kind == "document":
        message = f"The model reads text only; blocks of the type '{kind}' are not supported."
        raise fail("unsupported", message, param=path)
    raise _unknown(kind, path)


def _unknown(kind: str, path: str) -> RoostError:
    message = f"Blocks of the type '{kind[:50]}' cannot be read here; use 'text'."
    return fail("unsupported", message, param=f"{path}.type")


def _document(block: JsonObject) -> str | None:
    """Read a document of plain text, its title first; None for one that is something else."""
    source = block.get("source")
    if not isinstance(source, dict):
        return None
    data = source.get("data") if source.get("type") == "text" else None
    if source.get("type") == "content" and isinstance(source.get("content"), str):
        data = source["content"]
    if not isinstance(data, str):
        return None
    title = block.get("title")
    return f"{title}\n{data}" if isinstance(title, str) and title else data


def _texts(content: object, path: str) -> str:
    if isinstance(content, str):
        return _without_billing(content)
    parts = (_without_billing(_text(block, where)) for block, where in _blocks(content, path))
    return BETWEEN.join(part for part in parts if part)


def _without_billing(text: str) -> str:
    """Drop the line of Claude Code's that changes with every request, where it comes first."""
    return text.partition("\n")[2].lstrip("\n") if text.startswith(BILLING) else text


def _blocks(content: object, path: str) -> Iterator[tuple[JsonObject, str]]:
    if not isinstance(content, list):
        raise fields.wrong(path, "a string or an array of blocks", content)
    for number, block in enumerate(content):
        where = f"{path}[{number}]"
        if not isinstance(block, dict):
            raise fields.wrong(where, "an object", block)
        yield block, where
