"""DECIDER: a body for /v1/chat/completions becomes a request."""

from __future__ import annotations

from roost.core.ids import ModelId
from roost.core.request import ChatPrompt, GenerateRequest, Grammar
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, parse_object
from roost.dialects.openai import options as shared
from roost.dialects.openai.formats import read_constraint
from roost.dialects.openai.messages import goes_on, read_messages
from roost.dialects.openai.tools import read_offer
from roost.errors import fail

FIELDS = shared.SHARED_FIELDS | {
    "messages",
    "max_completion_tokens",
    "top_logprobs",
    "response_format",
    "grammar",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "function_call",
    "reasoning_effort",
    "chat_template_kwargs",
}


def read_chat(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a chat request; `strict` refuses fields that would have no effect.

    Raises `bad_request` or `unsupported`, both with the field at fault.
    """
    sent = parse_object(body)
    model = shared.read_model(sent)
    _refuse_function_call(sent)
    messages, ignored = read_messages(sent)
    thinking, effort = _thinking(sent, ignored)
    offer = read_offer(sent, ignored.add)
    constraint = read_constraint(sent)
    if constraint is not None and offer is not None and offer.mode != "none":
        name = "grammar" if isinstance(constraint, Grammar) else "response_format"
        message = f"'{name}' holds the whole answer, so it cannot call 'tools'."
        raise fail("unsupported", message, param=name)
    top_logprobs = _top_logprobs(sent)
    request = GenerateRequest(
        model=ModelId(model or ""),
        prompt=ChatPrompt(messages, offer, goes_on(messages), thinking, effort),
        max_tokens=shared.read_max_tokens(sent, "max_completion_tokens", "max_tokens"),
        stop=shared.read_stop(sent),
        sampling=shared.read_sampling(sent),
        top_logprobs=top_logprobs,
        ignore_eos=fields.flag(sent, "ignore_eos") or False,
        constraint=constraint,
    )
    ignored = ignored | shared.unknown_names(sent, FIELDS)
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


def _refuse_function_call(sent: JsonObject) -> None:
    """Refuse to promise a call in the way before tools, which is not spoken here."""
    choice = sent.get("function_call")
    if choice not in (None, "auto", "none"):
        message = "'function_call' demands a call the old way; use 'tools' and 'tool_choice'."
        raise fail("unsupported", message, param="function_call")


def _thinking(sent: JsonObject, ignored: set[str]) -> tuple[bool | None, str]:
    """Read whether the model shall think, and how much, as OpenAI and engines with templates do."""
    effort = fields.text(sent, "reasoning_effort") or ""
    if effort and effort not in shared.EFFORTS:
        message = f"'reasoning_effort' must be one of {', '.join(shared.EFFORTS)}."
        raise fail("bad_request", message, param="reasoning_effort")
    wishes = fields.mapping(sent, "chat_template_kwargs")
    thinking = fields.flag(wishes, "enable_thinking", "chat_template_kwargs.")
    others = (name for name in wishes if name != "enable_thinking")
    ignored.update(f"chat_template_kwargs.{name}" for name in others)
    if effort == "none":
        return thinking or False, ""
    return thinking, effort
