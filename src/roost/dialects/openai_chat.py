"""DECIDER: a body for /v1/chat/completions becomes a request."""

from __future__ import annotations

from roost.core.ids import ModelId
from roost.core.request import ChatPrompt, GenerateRequest
from roost.dialects import fields
from roost.dialects import openai_options as shared
from roost.dialects.json_body import JsonObject, described, parse_object
from roost.dialects.openai_messages import read_messages
from roost.errors import fail

_KNOWN = shared.SHARED_FIELDS | {
    "messages",
    "max_completion_tokens",
    "top_logprobs",
    "response_format",
    "tool_choice",
    "function_call",
}
_NO_CALL_NEEDED = (None, "auto", "none")
_JSON_FORMATS = ("json_object", "json_schema")


def read_chat(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a chat request; `strict` refuses fields that would have no effect.

    Raises `bad_request` or `unsupported`, both with the field at fault.
    """
    sent = parse_object(body)
    model = shared.read_model(sent)
    shared.refuse_several(sent, "n")
    shared.refuse_logit_bias(sent)
    _refuse_forced_calls(sent)
    _refuse_formats(sent)
    messages, ignored = read_messages(sent)
    top_logprobs = _top_logprobs(sent)
    request = GenerateRequest(
        model=ModelId(model or ""),
        prompt=ChatPrompt(messages),
        max_tokens=shared.read_max_tokens(sent, "max_completion_tokens", "max_tokens"),
        stop=shared.read_stop(sent),
        sampling=shared.read_sampling(sent),
        top_logprobs=top_logprobs,
        ignore_eos=fields.flag(sent, "ignore_eos") or False,
    )
    ignored = ignored | shared.unknown_names(sent, _KNOWN)
    return shared.translated(sent, request, ignored, strict=strict)


def _top_logprobs(sent: JsonObject) -> int | None:
    wanted = fields.flag(sent, "logprobs")
    top = fields.whole(sent, "top_logprobs", 0, shared.TOP_LOGPROBS_MAX)
    if wanted:
        return top or 0
    if top is not None:
        message = "'top_logprobs' needs 'logprobs' to be true."
        raise fail("bad_request", message, param="top_logprobs")
    return None


def _refuse_forced_calls(sent: JsonObject) -> None:
    """Refuse to promise a call: tools may be offered to a model that calls none, not demanded."""
    for name in ("tool_choice", "function_call"):
        choice = sent.get(name)
        if isinstance(choice, dict) or choice == "required":
            message = f"'{name}' demands a call, and calls of tools are not supported yet."
            raise fail("unsupported", message, param=name)
        if choice not in _NO_CALL_NEEDED:
            got = f"'{choice[:50]}'" if isinstance(choice, str) else described(choice)
            message = f"'{name}' must be 'auto', 'none', 'required' or an object, got {got}."
            raise fail("bad_request", message, param=name)


def _refuse_formats(sent: JsonObject) -> None:
    """Refuse a format that nothing would enforce."""
    kind = fields.mapping(sent, "response_format").get("type", "text")
    if kind in _JSON_FORMATS:
        message = f"'response_format' of the type '{kind}' is not supported yet."
        raise fail("unsupported", message, param="response_format")
    if kind != "text":
        message = "'response_format' must have the type 'text'."
        raise fail("bad_request", message, param="response_format")
