"""MACHINE: a conversation with its tools becomes a prompt, and it is said how to read the answer.

Every text that came from outside goes through the marks of `control`: what was said, names, the
arguments of calls, results, the descriptions and schemas of tools, the beginning of an answer. None
of it can become a token that steers the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from roost.core.request import ChatPrompt, Message, Offer, ToolCall
from roost.errors import fail
from roost.text import offers, templates
from roost.text.control import ControlTokens
from roost.text.endings import Ending, Rendered

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

DEPTH_MAX = 64
"""What is nested deeper in the arguments of a call or the schema of a tool is refused."""
# Words of ours and of JSON schemas: templates look for them, and nobody else has written them.
_OURS = frozenset(
    {"role", "content", "name", "type", "function", "tool_calls", "arguments", "id", "parameters"}
    | {"tool_call_id", "reasoning_content", "description", "properties", "required", "items"}
    | {"enum", "object", "string", "number", "integer", "boolean", "array", "null"}
    | {"system", "user", "assistant", "tool"}
)
_decode = msgspec.json.Decoder().decode


class Chat:
    """A model's template and control tokens, ready to render; `bos` and `eos` are texts."""

    def __init__(
        self, template: templates.Template, control: ControlTokens, bos: str, eos: str
    ) -> None:
        self._template = template
        self._control = control
        self._bos = bos
        self._eos = eos

    def render(self, prompt: ChatPrompt, today: str, *, exact: bool = False) -> Rendered:
        """Render; `exact` says that the answer has to be of a given form from its first token.

        Raises `bad_request` for what the template refuses, `unsupported` for what it cannot say.
        """
        traits = self._template.traits
        begun = prompt.messages[-1].content if prompt.continues else ""
        if prompt.continues:
            prompt = msgspec.structs.replace(prompt, messages=prompt.messages[:-1])
        offer = prompt.offer
        messages = prompt.messages if traits.tools else offers.told(prompt, system=traits.system)
        values: list[Json] = list(_as_values(messages))
        offered = traits.tools and offer is not None and offer.mode != "none"
        tools = _tools(offer) if offered and offer is not None else None
        sole = offers.opening(offer)[1] if offer else ""
        if self._control.has_escapes and (tools or any(one.calls for one in messages)):
            message = "The model has control tokens that JSON can write in another way: no tools."
            raise fail("unsupported", message, param="tools")
        marker = self._control.marker([*_texts([values, tools]), begun, sole])
        text = self._template.render(
            [self._marked(one, marker) for one in values],
            tools=None if tools is None else self._marked(tools, marker),
            names={"bos_token": self._bos, "eos_token": self._eos},
            wishes=_wishes(prompt),
            today=today,
        )
        ending = Ending(self._control, marker, traits.think)
        return ending.of(text, prompt, begun, exact=exact)

    def _marked(self, value: Json, marker: str) -> Json:
        """Cut every text in a value; ours are left, since a template looks for them."""
        if isinstance(value, str):
            return value if value in _OURS else self._control.mark(value, marker)
        if isinstance(value, list):
            return [self._marked(one, marker) for one in value]
        if isinstance(value, dict):
            return {
                str(self._marked(key, marker)): self._marked(one, marker)
                for key, one in value.items()
            }
        return value


def _wishes(prompt: ChatPrompt) -> dict[str, object]:
    """Give what templates may ask for; they ask whether a thing is defined, so None is none."""
    wishes: dict[str, object] = {}
    if prompt.thinking is not None:
        wishes["enable_thinking"] = prompt.thinking
    if prompt.effort:
        wishes["reasoning_effort"] = prompt.effort
    return wishes


def _as_values(messages: tuple[Message, ...]) -> Iterator[dict[str, Json]]:
    """Give the messages in the form templates expect: what is missing is a missing key.

    Calls get short ids of ours, since some templates take no others.
    """
    ids: dict[str, str] = {}
    names: dict[str, str] = {}
    for message in messages:
        found: dict[str, Json] = {"role": message.role, "content": message.content}
        name = message.name
        if message.reasoning:
            found["reasoning_content"] = message.reasoning
        if message.calls:
            for call in message.calls:
                ids[call.id] = f"call{len(ids):05d}"
                names[call.id] = call.name
            found["tool_calls"] = [_call(call, ids[call.id]) for call in message.calls]
        if message.role == "tool":
            found["tool_call_id"] = ids.get(message.call_id or "", "call00000")
            name = name or names.get(message.call_id or "")
        if name is not None:
            found["name"] = name
        yield found


def _call(call: ToolCall, short: str) -> dict[str, Json]:
    function: dict[str, Json] = {"name": call.name, "arguments": _json(call.arguments)}
    return {"id": short, "type": "function", "function": function}


def _tools(offer: Offer) -> list[Json]:
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": _json(offers.parameters_of(tool)),
            },
        }
        for tool in offer.tools
    ]


def _json(text: str) -> Json:
    """Parse JSON that a template is to look into; what is none stays a text."""
    try:
        found: Json = _decode(text or "{}")
    except (msgspec.MsgspecError, RecursionError):
        return text
    return found


def _texts(value: Json, depth: int = 0) -> Iterator[str]:
    if depth > DEPTH_MAX:
        raise fail("bad_request", f"JSON for tools is nested deeper than {DEPTH_MAX}.")
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, depth + 1)
    elif isinstance(value, dict):
        yield from value
        for one in value.values():
            yield from _texts(one, depth + 1)
