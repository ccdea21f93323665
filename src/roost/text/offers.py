"""DECIDER: tools told to models whose templates know nothing of tools, and answers that are begun.

The generic way: what may be called stands in the system message, a call is one JSON object between
two marks, and results come back in a user's message. Models that were never trained for tools
follow it as well as they follow anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from roost.core.request import ChatPrompt, Message, Offer, Tool, ToolCall

CALL_MARKS = ("<tool_call>", "</tool_call>")
_RESULT_MARKS = ("<tool_response>", "</tool_response>")
_NO_PARAMETERS = '{"type":"object","properties":{}}'

_HOW = """# Tools

You may call tools. Each line below describes one as JSON:
{tools}

To call a tool, write one JSON object with its name and arguments between marks, like this:
{opens}
{{"name": "the name", "arguments": {{"an argument": "its value"}}}}
{closes}
{many} The result comes in the next message, between {results} and its closing mark. \
Answer without a call where none is needed."""
_MANY = "Several calls follow each other, each between marks of its own."
_ONE = "Make one call at most."


def told(prompt: ChatPrompt, *, system: bool) -> tuple[Message, ...]:
    """Say with plain messages what a prompt says with tools, calls and results.

    `system` is whether the template knows system messages; without, the user is told what the
    system would be.
    """
    offer = prompt.offer
    messages = prompt.messages
    if not system and any(message.role == "system" for message in messages):
        messages = tuple(_without_system(messages))
    if any(message.calls or message.role == "tool" for message in messages):
        messages = tuple(_plain(messages))
    if offer is None or offer.mode == "none":
        return messages
    return _instructed(messages, _instructions(offer), system=system)


def parameters_of(tool: Tool) -> str:
    """Give the text of the schema of a tool's arguments."""
    return tool.parameters or _NO_PARAMETERS


def sole_tool(offer: Offer) -> str:
    """Name the tool that has to be called; "" where none has to, or the model may choose."""
    if offer.mode != "required":
        return ""
    return offer.only or (offer.tools[0].name if len(offer.tools) == 1 else "")


def opening(offer: Offer) -> tuple[str, str, str]:
    """Begin a call that is demanded: what comes before the name, the name, and what comes after."""
    name = sole_tool(offer)
    opens = CALL_MARKS[0] + "\n"
    return (opens + '{"name": ', json.dumps(name), ', "arguments":') if name else (opens, "", "")


def closing(offer: Offer) -> str:
    """End a call that was begun so, where the model writes only what its schema says."""
    return ("}\n" if sole_tool(offer) else "\n") + CALL_MARKS[1]


def schema_of(offer: Offer) -> str:
    """Give the JSON schema of what follows the opening; "" where it cannot be told in one."""
    tools = {tool.name: parameters_of(tool) for tool in offer.tools}
    if name := sole_tool(offer):
        return tools[name]
    if any('"$ref"' in parameters for parameters in tools.values()):
        # A reference counts from the root, and within a choice the root is another one.
        return ""
    choices = ",".join(
        f'{{"type":"object","properties":{{"name":{{"const":{json.dumps(name)}}},'
        f'"arguments":{parameters}}},"required":["name","arguments"],"additionalProperties":false}}'
        for name, parameters in tools.items()
    )
    return f'{{"anyOf":[{choices}]}}'


def _instructions(offer: Offer) -> str:
    lines = (
        f'{{"name": {json.dumps(tool.name, ensure_ascii=False)}, '
        f'"description": {json.dumps(tool.description, ensure_ascii=False)}, '
        f'"parameters": {parameters_of(tool)}}}'
        for tool in offer.tools
    )
    return _HOW.format(
        tools="\n".join(lines),
        opens=CALL_MARKS[0],
        closes=CALL_MARKS[1],
        many=_MANY if offer.parallel else _ONE,
        results=_RESULT_MARKS[0],
    )


def _instructed(messages: tuple[Message, ...], text: str, *, system: bool) -> tuple[Message, ...]:
    role = "system" if system else "user"
    at = 0 if system else next((n for n, one in enumerate(messages) if one.role == "user"), 0)
    if at < len(messages) and messages[at].role == role:
        first = messages[at]
        both = f"{first.content}\n\n{text}" if system else f"{text}\n\n{first.content}"
        changed = msgspec.structs.replace(first, content=both)
        return (*messages[:at], changed, *messages[at + 1 :])
    return (Message("system" if system else "user", text), *messages)


def _plain(messages: Sequence[Message]) -> Iterable[Message]:
    """Write calls and results as text; results and the user's words after them are one message."""
    names = {call.id: call.name for message in messages for call in message.calls}
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            waiting.append(_result(message, names))
        elif waiting and message.role == "user":
            yield msgspec.structs.replace(message, content=_joined([*waiting, message.content]))
            waiting = []
        else:
            if waiting:
                yield Message("user", _joined(waiting))
                waiting = []
            yield _with_calls(message)
    if waiting:
        yield Message("user", _joined(waiting))


def _without_system(messages: Sequence[Message]) -> Iterable[Message]:
    """Put what system messages say in front of what the next user says."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "system":
            waiting.append(message.content)
        elif waiting and message.role == "user":
            yield msgspec.structs.replace(message, content=_joined([*waiting, message.content]))
            waiting = []
        else:
            yield message
    if waiting:
        yield Message("user", _joined(waiting))


def _with_calls(message: Message) -> Message:
    if not message.calls:
        return message
    parts = [message.content] if message.content else []
    content = "\n".join([*parts, *map(_written, message.calls)])
    return msgspec.structs.replace(message, content=content, calls=())


def _written(call: ToolCall) -> str:
    opens, closes = CALL_MARKS
    name = json.dumps(call.name, ensure_ascii=False)
    return f'{opens}\n{{"name": {name}, "arguments": {call.arguments or "{}"}}}\n{closes}'


def _result(message: Message, names: dict[str, str]) -> str:
    name = message.name or names.get(message.call_id or "", "")
    opens, closes = _RESULT_MARKS
    title = f"{name}:\n" if name else ""
    return f"{opens}\n{title}{message.content}\n{closes}"


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)
