"""DECIDER: a body for /v1/responses becomes a request.

The input is a list of items; a run of them that an assistant said is one turn of ours. Tools that
others run are left out, and so is every field that is not known. How tokens are drawn may be said
by all the fields that a chat has for it, though the API itself has fewer. `store` is true where
nobody says otherwise, as in the API.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from roost.core.ids import ModelId
from roost.core.request import ChatPrompt, GenerateRequest, Message
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, parse_object
from roost.dialects.openai import options as shared
from roost.dialects.openai.formats import read_flat_format
from roost.dialects.openai.tools import read_offer
from roost.dialects.responses.items import read_input
from roost.dialects.wishes import Wishes
from roost.errors import fail

METADATA_MAX = 16
METADATA_KEY_CHARS_MAX = 64
METADATA_CHARS_MAX = 512
ID_CHARS_MAX = 128

FIELDS = frozenset(
    {"model", "input", "instructions", "max_output_tokens", "temperature", "top_p", "stream"}
    | {"tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "store", "metadata"}
    | {"previous_response_id", "background", "prompt_cache_key", "roost", "seed", "stop", "top_k"}
    | {"min_p", "presence_penalty", "frequency_penalty", "logit_bias"}
)


def read_response(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a request; `strict` refuses fields that would have no effect.

    Where it goes on from another response, what was said before is not in it yet: `going_on` puts
    that in. Raises `bad_request` or `unsupported`, both with the field at fault.
    """
    sent = parse_object(body)
    ignored: set[str] = set()
    said = read_input(sent, ignored.add)
    wishes = _wishes(sent)
    thinking, effort = _thinking(sent)
    offer = read_offer(sent, ignored.add)
    form = fields.mapping(fields.mapping(sent, "text"), "format", "text.")
    request = GenerateRequest(
        model=ModelId(shared.read_model(sent) or ""),
        prompt=ChatPrompt(
            with_instructions(wishes.instructions, said),
            offer,
            thinking=thinking,
            effort=effort,
        ),
        max_tokens=shared.read_max_tokens(sent, "max_output_tokens"),
        stop=shared.read_stop(sent),
        sampling=shared.read_sampling(sent),
        constraint=read_flat_format(form, "text.format", offer),
    )
    ignored |= shared.unknown_names(sent, FIELDS)
    ignored |= shared.unknown_within(sent, "text", {"format"})
    ignored |= shared.unknown_within(sent, "reasoning", {"effort"})
    return shared.Translated(
        request,
        shared.ReplyOptions(
            stream=fields.flag(sent, "stream") or False,
            include_usage=True,
            model_as_sent=fields.text(sent, "model"),
            wishes=wishes,
        ),
        shared.name_ignored(ignored, strict=strict),
        fields.mapping(sent, "roost"),
        shared.read_cache_key(sent),
    )


def going_on(
    request: GenerateRequest, wishes: Wishes, before: Sequence[Message]
) -> GenerateRequest:
    """Put what was said before between the instructions and what is said now."""
    prompt = request.prompt
    assert isinstance(prompt, ChatPrompt), "a response is always a chat"
    messages = with_instructions(wishes.instructions, (*before, *own(request, wishes)))
    return msgspec.structs.replace(
        request, prompt=msgspec.structs.replace(prompt, messages=messages)
    )


def own(request: GenerateRequest, wishes: Wishes) -> tuple[Message, ...]:
    """Return the messages of a request's own input, without its instructions."""
    prompt = request.prompt
    assert isinstance(prompt, ChatPrompt), "a response is always a chat"
    return prompt.messages[1:] if wishes.instructions else prompt.messages


def with_instructions(instructions: str | None, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Put instructions before a conversation; they are no part of it and are not kept with it."""
    return (*([Message("system", instructions)] if instructions else []), *messages)


def _wishes(sent: JsonObject) -> Wishes:
    previous = fields.text(sent, "previous_response_id") or ""
    if len(previous) > ID_CHARS_MAX:
        raise fields.wrong("previous_response_id", "the id of a response", previous)
    keep = fields.flag(sent, "store") is not False
    background = fields.flag(sent, "background") or False
    if background and not keep:
        message = "A response in the background is asked for later, so it has to be stored."
        raise fail("bad_request", message, param="background")
    return Wishes(
        previous,
        keep,
        background,
        fields.text(sent, "instructions"),
        _metadata(sent),
    )


def _metadata(sent: JsonObject) -> dict[str, str]:
    found = fields.mapping(sent, "metadata")
    if len(found) > METADATA_MAX:
        raise fields.wrong("metadata", f"an object of up to {METADATA_MAX} members", found)
    told: dict[str, str] = {}
    for name, value in found.items():
        if not isinstance(value, str) or len(value) > METADATA_CHARS_MAX:
            wanted = f"a string of up to {METADATA_CHARS_MAX} characters"
            raise fields.wrong("metadata", wanted, value)
        if len(name) > METADATA_KEY_CHARS_MAX:
            message = f"Names in 'metadata' have up to {METADATA_KEY_CHARS_MAX} characters."
            raise fail("bad_request", message, param="metadata")
        told[name] = value
    return told


def _thinking(sent: JsonObject) -> tuple[bool | None, str]:
    effort = fields.text(fields.mapping(sent, "reasoning"), "effort", "reasoning.") or ""
    if effort and effort not in shared.EFFORTS:
        message = f"'reasoning.effort' must be one of {', '.join(shared.EFFORTS)}."
        raise fail("bad_request", message, param="reasoning.effort")
    return (False, "") if effort == "none" else (None, effort)
