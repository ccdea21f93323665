"""DECIDER: bodies for Ollama's /api/chat and /api/generate become requests.

Rules of our own: `options` that say how a runtime is made (`num_ctx`, `num_gpu` and the like) are
its node's business and have no effect, and neither has `repeat_penalty`; `context`, `template` and
`suffix` cannot be had and are refused, since an answer without them would be another one. A tag
`:latest` is left off, unless somebody has given that name to a model. A chat that is too long is
trimmed where `truncate` is sent as true; nothing is left out where nobody has asked for it.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from roost.core.ids import ModelId
from roost.core.request import (
    ChatPrompt,
    Constraint,
    GenerateRequest,
    JsonAny,
    JsonSchema,
    Message,
    Prompt,
    TextPrompt,
)
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, parse_object
from roost.dialects.ollama.durations import read_keep_s
from roost.dialects.ollama.messages import read_messages, refuse_images
from roost.dialects.openai import options as shared
from roost.dialects.openai.messages import goes_on
from roost.dialects.openai.tools import read_offer
from roost.dialects.stay import Stay
from roost.errors import fail

EFFORTS = ("low", "medium", "high", "max")
LATEST = ":latest"

_SHARED = frozenset(
    {"model", "format", "options", "stream", "keep_alive", "think", "logprobs", "top_logprobs"}
    | {"roost"}
)
CHAT_FIELDS = _SHARED | {"messages", "tools", "truncate"}
GENERATE_FIELDS = _SHARED | {"prompt", "system", "images", "raw", "template", "suffix", "context"}
_SAMPLED = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty"}
)
_OPTIONS = _SAMPLED | {"num_predict", "stop"}
_LOAD = TextPrompt(".")
"""What a model is asked that shall only be loaded: the shortest of answers, told to nobody."""
_WHERE = "options."
_encode = msgspec.json.Encoder().encode


def read_ollama_chat(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a chat; without messages it is about the model alone.

    `strict` refuses fields that would have no effect. Raises `bad_request` or `unsupported`, both
    with the field at fault.
    """
    sent = parse_object(body)
    ignored = shared.unknown_names(sent, CHAT_FIELDS)
    messages = read_messages(sent, ignored.add)
    thinking, effort = _thinking(sent)
    offer = read_offer({"tools": sent.get("tools")}, ignored.add)
    constraint = _constraint(sent)
    if constraint is not None and offer is not None:
        message = "'format' holds the whole answer, so it cannot call 'tools'."
        raise fail("unsupported", message, param="format")
    prompt = ChatPrompt(messages, offer, goes_on(messages), thinking, effort) if messages else None
    return _translated(sent, prompt, constraint, ignored, strict=strict)


def read_ollama_generate(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a prompt, which its model's template is put around unless it is `raw`.

    Without one it is about the model alone. Raises as `read_ollama_chat` does.
    """
    sent = parse_object(body)
    ignored = shared.unknown_names(sent, GENERATE_FIELDS)
    _refuse(sent)
    text = fields.text(sent, "prompt") or ""
    system = fields.text(sent, "system") or ""
    thinking, effort = _thinking(sent)
    raw = fields.flag(sent, "raw") or False
    if raw and system:
        message = "With 'raw' the prompt is all that the model gets: put 'system' into it."
        raise fail("bad_request", message, param="system")
    prompt: Prompt | None = None
    if text and raw:
        prompt = TextPrompt(text)
    elif text:
        begin = (Message("system", system),) if system else ()
        prompt = ChatPrompt((*begin, Message("user", text)), thinking=thinking, effort=effort)
    return _translated(sent, prompt, _constraint(sent), ignored, strict=strict)


def _translated(
    sent: JsonObject,
    prompt: Prompt | None,
    constraint: Constraint | None,
    ignored: set[str],
    *,
    strict: bool,
) -> shared.Translated:
    options = fields.mapping(sent, "options")
    unknown = shared.unknown_names(options, _OPTIONS)
    ignored |= {f"{_WHERE}{name}" for name in unknown}
    drawn = {name: value for name, value in options.items() if name in _SAMPLED}
    top_logprobs = _top_logprobs(sent)
    request = GenerateRequest(
        model=ModelId(shared.read_model(sent) or ""),
        prompt=_LOAD if prompt is None else prompt,
        max_tokens=_limit(options),
        stop=shared.read_stop(options, _WHERE),
        sampling=shared.read_sampling(drawn, _WHERE),
        top_logprobs=top_logprobs,
        constraint=constraint,
    )
    if prompt is None:
        request = GenerateRequest(request.model, _LOAD, max_tokens=1)
    reply = shared.ReplyOptions(
        stream=fields.flag(sent, "stream") is not False,
        include_usage=True,
        logprobs=top_logprobs is not None,
        model_as_sent=fields.text(sent, "model"),
        thoughts=sent.get("think") is not False,
        stay=Stay(read_keep_s(sent), alone=prompt is None),
    )
    return shared.Translated(
        request, reply, shared.name_ignored(ignored, strict=strict), _roost(sent)
    )


def untagged(model: str, known: Container[str]) -> str:
    """Leave off the tag that Ollama's clients add by themselves, unless it is part of a name."""
    return model if model in known else model.removesuffix(LATEST)


def _roost(sent: JsonObject) -> JsonObject:
    """Read the twins of headers, and `truncate`, which is one by another name."""
    roost = fields.mapping(sent, "roost")
    truncate = fields.flag(sent, "truncate")
    if truncate is None or "context" in roost:
        return roost
    return {**roost, "context": "trim" if truncate else "reject"}


def _refuse(sent: JsonObject) -> None:
    """Refuse what would make another answer and cannot be had."""
    refuse_images(sent)
    for name, other in (
        (
            "context",
            "send the conversation to /api/chat: no token ids are given here to go on from",
        ),
        ("template", "the model's own is used; with 'raw' the prompt is all that it gets"),
        ("suffix", "no model here fills in between two texts"),
    ):
        if sent.get(name):
            raise fail("unsupported", f"'{name}' is not supported: {other}.", param=name)


def _limit(options: JsonObject) -> int | None:
    """Read the limit on generated tokens; 0 and less are none, as in Ollama."""
    limit = fields.whole(options, "num_predict", -(2**31), None, _WHERE)
    return min(limit, shared.MAX_TOKENS_CAP) if limit is not None and limit > 0 else None


def _top_logprobs(sent: JsonObject) -> int | None:
    wanted = fields.flag(sent, "logprobs")
    top = fields.whole(sent, "top_logprobs", 0, shared.TOP_LOGPROBS_MAX)
    return (top or 0) if wanted else None


def _thinking(sent: JsonObject) -> tuple[bool | None, str]:
    """Read `think`: yes, no, or how much; None leaves it to the model's template."""
    think = sent.get("think")
    if think is None or isinstance(think, bool):
        return think, ""
    if isinstance(think, str) and think in EFFORTS:
        return True, think
    raise fields.wrong("think", f"a boolean or one of {', '.join(EFFORTS)}", think)


def _constraint(sent: JsonObject) -> Constraint | None:
    form = sent.get("format")
    if form is None or form == "":
        return None
    if form == "json":
        return JsonAny()
    if isinstance(form, dict) and form:
        return JsonSchema(_encode(form).decode())
    raise fields.wrong("format", "'json', or a JSON schema that is not empty", form)
