"""DECIDER: a body for /v1/messages becomes a request.

Rules of our own: a missing `max_tokens` means up to the end of the context; sampling fields are
read although newer versions of the API refuse them; thoughts of earlier answers are read with any
signature. Tools that others run are left out, and so is every field that is not known.
"""

from __future__ import annotations

import msgspec

from roost.core.ids import ModelId
from roost.core.request import ChatPrompt, GenerateRequest, Offer, Sampling, Tool, ToolMode
from roost.dialects import fields
from roost.dialects.anthropic.blocks import read_messages, read_system
from roost.dialects.json_body import JsonObject, described, parse_object
from roost.dialects.openai import options as shared
from roost.dialects.openai.formats import read_flat_format
from roost.dialects.openai.messages import goes_on
from roost.dialects.openai.tools import read_name
from roost.errors import fail

TOOLS_MAX = 1024
SESSION_CHARS_MAX = 256

FIELDS = frozenset(
    {"model", "messages", "system", "max_tokens", "stop_sequences", "stream", "temperature"}
    | {"top_p", "top_k", "tools", "tool_choice", "thinking", "output_config", "metadata", "roost"}
)
_WITHIN = {
    "thinking": {"type"},
    "output_config": {"effort", "format"},
    "metadata": {"user_id"},
    "tool_choice": {"type", "name", "disable_parallel_tool_use"},
}
_MODES: dict[str, ToolMode] = {
    "auto": "auto",
    "any": "required",
    "tool": "required",
    "none": "none",
}
_THINKING = {"enabled": True, "adaptive": True, "disabled": False}
_encode = msgspec.json.Encoder().encode


class _User(msgspec.Struct):
    """What Claude Code writes into `metadata.user_id`, as JSON in a string."""

    session_id: str = ""


def read_message(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a request; `strict` refuses fields that would have no effect.

    Raises `bad_request` or `unsupported`, both with the field at fault.
    """
    sent = parse_object(body)
    ignored: set[str] = set()
    messages = read_system(sent) + read_messages(sent, ignored.add)
    thinking, offer = read_thinking(sent), _offer(sent, ignored)
    config = fields.mapping(sent, "output_config")
    effort = fields.text(config, "effort", "output_config.") or "" if thinking else ""
    form = fields.mapping(config, "format", "output_config.")
    request = GenerateRequest(
        model=ModelId(shared.read_model(sent) or ""),
        prompt=ChatPrompt(messages, offer, goes_on(messages), thinking, effort),
        max_tokens=_limit(sent),
        stop=_stops(sent),
        sampling=_sampling(sent),
        constraint=read_flat_format(form, "output_config.format", offer),
    )
    ignored |= shared.unknown_names(sent, FIELDS)
    for name, known in _WITHIN.items():
        ignored |= shared.unknown_within(sent, name, known)
    options = shared.ReplyOptions(
        stream=fields.flag(sent, "stream") or False,
        include_usage=True,
        model_as_sent=fields.text(sent, "model"),
        thoughts=thinking,
    )
    return shared.Translated(
        request,
        options,
        shared.name_ignored(ignored, strict=strict),
        fields.mapping(sent, "roost"),
        _session(sent),
    )


def read_count(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a request to be counted: the same in every field, and nothing is generated."""
    found = read_message(body, strict=strict)
    # To a node that knows no counting it is the cheapest answer there is, and its usage the count.
    request = msgspec.structs.replace(found.request, counts=True, max_tokens=1)
    options = msgspec.structs.replace(found.options, stream=False)
    return msgspec.structs.replace(found, request=request, options=options)


def read_thinking(sent: JsonObject) -> bool:
    """Whether the model shall think, and its thoughts be told: not unless that is asked for."""
    kind = fields.mapping(sent, "thinking").get("type", "disabled")
    if isinstance(kind, str) and kind in _THINKING:
        return _THINKING[kind]
    wanted = "'enabled', 'adaptive' or 'disabled'"
    raise fields.wrong("thinking.type", wanted, kind)


def _limit(sent: JsonObject) -> int | None:
    limit = fields.whole(sent, "max_tokens", 1, None)
    return None if limit is None else min(limit, shared.MAX_TOKENS_CAP)


def _sampling(sent: JsonObject) -> Sampling:
    return Sampling(
        temperature=fields.number(sent, "temperature", 0, 2),
        top_p=fields.number(sent, "top_p", 0, 1),
        top_k=fields.whole(sent, "top_k", 0, 1_000_000),
    )


def _stops(sent: JsonObject) -> tuple[str, ...]:
    stops = sent.get("stop_sequences")
    if stops is None:
        return ()
    if not isinstance(stops, list) or len(stops) > shared.STOPS_MAX:
        wanted = f"a list of up to {shared.STOPS_MAX} strings"
        raise fields.wrong("stop_sequences", wanted, stops)
    found = []
    for number, stop in enumerate(stops):
        if not isinstance(stop, str) or not 1 <= len(stop) <= shared.STOP_CHARS_MAX:
            wanted = f"a string of 1 to {shared.STOP_CHARS_MAX} characters"
            raise fields.wrong(f"stop_sequences[{number}]", wanted, stop)
        found.append(stop)
    return tuple(found)


def _offer(sent: JsonObject, ignored: set[str]) -> Offer | None:
    tools = _tools(sent, ignored)
    choice = fields.mapping(sent, "tool_choice")
    kind = choice.get("type", "auto")
    if not isinstance(kind, str) or kind not in _MODES:
        got = f"'{kind[:50]}'" if isinstance(kind, str) else described(kind)
        message = f"'tool_choice.type' must be 'auto', 'any', 'tool' or 'none', got {got}."
        raise fail("bad_request", message, param="tool_choice.type")
    mode = _MODES[kind]
    if not tools:
        if mode == "required":
            message = "'tool_choice' demands a call, and there are no tools to call."
            raise fail("bad_request", message, param="tool_choice")
        return None
    only = ""
    if kind == "tool":
        only = fields.text(choice, "name", "tool_choice.") or ""
        if only not in {tool.name for tool in tools}:
            message = "'tool_choice' names a tool that is not among 'tools'."
            raise fail("bad_request", message, param="tool_choice.name")
    single = fields.flag(choice, "disable_parallel_tool_use", "tool_choice.")
    return Offer(tools, mode, only, parallel=not single)


def _tools(sent: JsonObject, ignored: set[str]) -> tuple[Tool, ...]:
    entries = sent.get("tools")
    if entries is None:
        return ()
    if not isinstance(entries, list) or len(entries) > TOOLS_MAX:
        raise fields.wrong("tools", f"a list of up to {TOOLS_MAX} tools", entries)
    tools: dict[str, Tool] = {}
    for number, entry in enumerate(entries):
        path = f"tools[{number}]"
        if not isinstance(entry, dict):
            raise fields.wrong(path, "an object", entry)
        if entry.get("type", "custom") not in (None, "custom"):
            ignored.add("tools[].type")
            continue
        tool = _tool(entry, f"{path}.")
        if tool.name in tools:
            raise fail("bad_request", "Two tools have the same name.", param=f"{path}.name")
        tools[tool.name] = tool
    return tuple(tools.values())


def _tool(entry: JsonObject, path: str) -> Tool:
    schema = fields.mapping(entry, "input_schema", path)
    return Tool(
        read_name(entry, path),
        fields.text(entry, "description", path) or "",
        _encode(schema).decode() if schema else "",
    )


def _session(sent: JsonObject) -> str:
    """Read by what the client groups its requests: a session, since one user may have many."""
    user = fields.mapping(sent, "metadata").get("user_id")
    if not isinstance(user, str):
        return ""
    try:
        session = msgspec.json.decode(user, type=_User).session_id
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return ""
    return session if len(session) <= SESSION_CHARS_MAX else ""
