"""DECIDER: the tools of a chat, which of them has to be called, and calls in its history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from roost.core.request import Offer, Tool, ToolCall, ToolMode
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, described
from roost.errors import RoostError, fail

TOOLS_MAX = 1024
CALLS_MAX = 128
NAME_CHARS_MAX = 256

_MODES: dict[str, ToolMode] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    # What LangChain and others call it.
    "any": "required",
}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
Ignore = Callable[[str], None]
"""Told the name of a field without effect."""


def read_offer(body: JsonObject, ignore: Ignore) -> Offer | None:
    """Read `tools`, `tool_choice` and `parallel_tool_calls`; None where no tool can be called.

    Tools of a type that is run by others are left out and told to `ignore`. Raises `bad_request`.
    """
    tools = tuple(_tools(body, ignore))
    mode, only = _choice(body)
    parallel = fields.flag(body, "parallel_tool_calls") is not False
    if not tools:
        if mode == "required":
            message = "'tool_choice' demands a call, and 'tools' has no function to call."
            raise fail("bad_request", message, param="tool_choice")
        return None
    if only and only not in {tool.name for tool in tools}:
        message = "'tool_choice' names a function that is not among 'tools'."
        raise fail("bad_request", message, param="tool_choice")
    return Offer(tools, mode, only, parallel)


def read_calls(message: JsonObject, path: str, ignore: Ignore) -> tuple[ToolCall, ...]:
    """Read the calls of an assistant's turn; null and [] are none. Raises `bad_request`."""
    calls = message.get("tool_calls")
    if calls is None or calls == []:
        function = fields.mapping(message, "function_call", path)
        return (_function_call(function, "", f"{path}function_call"),) if function else ()
    if not isinstance(calls, list) or len(calls) > CALLS_MAX:
        raise fields.wrong(f"{path}tool_calls", f"a list of up to {CALLS_MAX} calls", calls)
    return tuple(_calls(calls, f"{path}tool_calls", ignore))


def _tools(body: JsonObject, ignore: Ignore) -> Iterator[Tool]:
    sent = body.get("tools")
    if sent is None:
        return
    if not isinstance(sent, list) or len(sent) > TOOLS_MAX:
        raise fields.wrong("tools", f"a list of up to {TOOLS_MAX} tools", sent)
    seen: set[str] = set()
    for number, entry in enumerate(sent):
        path = f"tools[{number}]"
        if not isinstance(entry, dict):
            raise fields.wrong(path, "an object", entry)
        if entry.get("type", "function") != "function":
            ignore("tools[].type")
            continue
        tool = _tool(entry, path)
        if tool.name in seen:
            raise fail("bad_request", "Two tools have the same name.", param=f"{path}.name")
        seen.add(tool.name)
        yield tool


def _tool(entry: JsonObject, path: str) -> Tool:
    function = fields.mapping(entry, "function", f"{path}.")
    where = f"{path}.function." if function else f"{path}."
    function = function or entry
    parameters = fields.mapping(function, "parameters", where)
    return Tool(
        read_name(function, where),
        fields.text(function, "description", where) or "",
        _encode(parameters).decode() if parameters else "",
    )


def read_name(function: JsonObject, where: str) -> str:
    """Read the name of a tool; `bad_request` for one that is none."""
    name = fields.text(function, "name", where)
    if name is None or not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
        wanted = f"a name of 1 to {NAME_CHARS_MAX} printable characters"
        raise fields.wrong(f"{where}name", wanted, name)
    return name


def _choice(body: JsonObject) -> tuple[ToolMode, str]:
    choice = body.get("tool_choice")
    if choice is None:
        return "auto", ""
    if isinstance(choice, str) and choice in _MODES:
        return _MODES[choice], ""
    if isinstance(choice, dict) and choice.get("type") == "function":
        function = fields.mapping(choice, "function", "tool_choice.")
        where = "tool_choice.function." if function else "tool_choice."
        return "required", read_name(function or choice, where)
    got = f"'{choice[:50]}'" if isinstance(choice, str) else described(choice)
    message = f"'tool_choice' must be 'auto', 'none', 'required' or name a function, got {got}."
    raise fail("bad_request", message, param="tool_choice")


def _calls(calls: Sequence[object], path: str, ignore: Ignore) -> Iterator[ToolCall]:
    for number, entry in enumerate(calls):
        where = f"{path}[{number}]"
        if not isinstance(entry, dict):
            raise fields.wrong(where, "an object", entry)
        if entry.get("type") not in (None, "function"):
            ignore("messages[].tool_calls[].type")
            continue
        function = fields.mapping(entry, "function", f"{where}.")
        call_id = fields.text(entry, "id", f"{where}.") or ""
        yield _function_call(function, call_id, f"{where}.function")


def _function_call(function: JsonObject, call_id: str, path: str) -> ToolCall:
    name = read_name(function, f"{path}.")
    return ToolCall(call_id, name, read_arguments(function.get("arguments"), f"{path}.arguments"))


def read_arguments(value: object, path: str) -> str:
    """Read arguments: JSON in a string, or the object itself, which some clients send."""
    if value is None or value == "":
        return "{}"
    if isinstance(value, dict):
        return _encode(value).decode()
    if not isinstance(value, str):
        raise fields.wrong(path, "a string with a JSON object", value)
    try:
        found: object = _decode(value)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise _broken(path) from None
    if not isinstance(found, dict):
        raise _broken(path)
    return value


def _broken(path: str) -> RoostError:
    message = f"'{path}' is not a JSON object; leave out calls that were cut off."
    return fail("bad_request", message, param=path)
