"""DECIDER: the fields that both OpenAI generation APIs share, and what a reply has to look like.

Rules of our own where clients disagree: `max_tokens` -1 means no limit and 0 is refused; a limit
above the context is kept here and clamped by the node; `top_k` -1 and 0 both switch it off; a
negative or 64-bit `seed` is taken modulo 2**32; `stop` holds up to 16 strings.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from roost.core.request import BIASES_MAX, GenerateRequest, Prompt, Sampling
from roost.dialects import fields
from roost.dialects.json_body import JsonObject
from roost.dialects.stay import Stay
from roost.dialects.wishes import Wishes
from roost.errors import fail

MAX_TOKENS_CAP = 2**31 - 1
STOPS_MAX = 16
STOP_CHARS_MAX = 1000
MODEL_CHARS_MAX = 256
TOP_LOGPROBS_MAX = 20
CHOICES_MAX = 16
CACHE_KEY_CHARS_MAX = 256
IGNORED_NAMES_MAX = 32
IGNORED_NAME_CHARS_MAX = 64
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_STREAM_OPTIONS = frozenset({"include_usage"})
_TOKEN_ID = re.compile(r"\d{1,9}", re.ASCII)

SHARED_FIELDS = frozenset(
    {
        "model",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "stop",
        "n",
        "logit_bias",
        "logprobs",
        "ignore_eos",
        "stream",
        "stream_options",
        "prompt_cache_key",
        "roost",
    }
)


class VectorOptions(msgspec.Struct, frozen=True):
    """How a client wants its vectors; `count` is that of its inputs."""

    count: int
    base64: bool = False


class ScoreOptions(msgspec.Struct, frozen=True):
    """How a client wants its scores: the `top` best of `count` documents, with them or without."""

    count: int
    top: int
    documents: tuple[str, ...] = ()


class ReplyOptions(msgspec.Struct, frozen=True):
    """How the client wants its answer.

    `include_usage` asks for a usage chunk at the end of a stream; other replies always have usage.
    `model_as_sent` is None where the client named no model and the default applies. `choices` are
    the answers that are asked for, to all prompts together. With `echo` each repeats its prompt.
    `thoughts` is whether the model's thoughts are told, `wishes` what else is asked of a response,
    `stay` what is asked for the model itself.
    `vectors` says how those are wanted, and `scores` how those are; None where texts are.
    """

    stream: bool = False
    include_usage: bool = False
    logprobs: bool = False
    model_as_sent: str | None = None
    choices: int = 1
    thoughts: bool = True
    wishes: Wishes | None = None
    echo: bool = False
    stay: Stay | None = None
    vectors: VectorOptions | None = None
    scores: ScoreOptions | None = None


class Translated(msgspec.Struct, frozen=True):
    """A request of this dialect in the words of the core.

    `request.model` is "" where none was named. `ignored` names fields that had no effect, at most
    `IGNORED_NAMES_MAX` of them. `roost` is the object of that name: the request headers' twins.
    `cache_key` is what requests with the same beginning share by their client's word, or "".
    `more` are prompts beside the request's own, which are asked for in the same way.
    """

    request: GenerateRequest
    options: ReplyOptions
    ignored: tuple[str, ...] = ()
    roost: JsonObject = {}
    cache_key: str = ""
    more: tuple[Prompt, ...] = ()


def read_model(body: JsonObject) -> str | None:
    """Read the name of the model without the spaces around it; None where none was sent."""
    sent = fields.text(body, "model")
    model = sent and sent.strip()
    if model is not None and not 1 <= len(model) <= MODEL_CHARS_MAX:
        wanted = f"the name of a model, of 1 to {MODEL_CHARS_MAX} characters"
        raise fields.wrong("model", wanted, model)
    return model


def read_reply(body: JsonObject, *, logprobs: bool) -> ReplyOptions:
    """Read how the answer is to be sent; `logprobs` says whether it shall carry them."""
    usage = fields.flag(
        fields.mapping(body, "stream_options"), "include_usage", path="stream_options."
    )
    return ReplyOptions(
        stream=fields.flag(body, "stream") or False,
        include_usage=usage or False,
        logprobs=logprobs,
        model_as_sent=fields.text(body, "model"),
        choices=fields.whole(body, "n", 1, CHOICES_MAX) or 1,
    )


def read_cache_key(body: JsonObject) -> str:
    """Read what the client groups its requests by; one that is too long is none."""
    key = fields.text(body, "prompt_cache_key") or ""
    return key if len(key) <= CACHE_KEY_CHARS_MAX else ""


def read_sampling(body: JsonObject, path: str = "") -> Sampling:
    """Read how tokens are drawn, from fields at `path`; absent ones stay None."""
    seed = fields.whole(body, "seed", -(2**63), 2**63 - 1, path)
    top_k = fields.whole(body, "top_k", -1, 1_000_000, path)
    return Sampling(
        temperature=fields.number(body, "temperature", 0, 2, path),
        top_p=fields.number(body, "top_p", 0, 1, path),
        top_k=None if top_k is None else max(0, top_k),
        min_p=fields.number(body, "min_p", 0, 1, path),
        seed=None if seed is None else seed % 2**32,
        presence_penalty=fields.number(body, "presence_penalty", -2, 2, path),
        frequency_penalty=fields.number(body, "frequency_penalty", -2, 2, path),
        logit_bias=_read_biases(body),
    )


def read_max_tokens(body: JsonObject, *names: str) -> int | None:
    """Read the limit on generated tokens; of several names sent the first one given here counts."""
    limits: list[int] = []
    for name in names:
        limit = fields.whole(body, name, -1, None)
        if limit == 0:
            message = f"'{name}' must be at least 1, or -1 for no limit; 0 asks for no answer."
            raise fail("bad_request", message, param=name)
        limits += [] if limit is None else [limit]
    return min(limits[0], MAX_TOKENS_CAP) if limits and limits[0] > 0 else None


def read_stop(body: JsonObject, path: str = "") -> tuple[str, ...]:
    """Read the stop strings at `path`: absent, null and [] are none, a string is a list of one."""
    value = body.get("stop")
    stops = value if isinstance(value, list) else [] if value is None else [value]
    for stop in stops:
        if not isinstance(stop, str) or not 1 <= len(stop) <= STOP_CHARS_MAX:
            wanted = f"a string or a list of strings, each of 1 to {STOP_CHARS_MAX} characters"
            raise fields.wrong(f"{path}stop", wanted, stop)
    if len(stops) > STOPS_MAX:
        message = f"'{path}stop' may hold {STOPS_MAX} strings, got {len(stops)}."
        raise fail("bad_request", message, param=f"{path}stop")
    return tuple(stops)


def _read_biases(body: JsonObject) -> tuple[tuple[int, float], ...]:
    """Read what is added to the chances of tokens, by id; null and {} are none."""
    sent = fields.mapping(body, "logit_bias")
    if len(sent) > BIASES_MAX:
        message = f"'logit_bias' may hold {BIASES_MAX} tokens, got {len(sent)}."
        raise fail("bad_request", message, param="logit_bias")
    found = []
    for token in sent:
        bias = fields.number(sent, token, -100, 100)
        if bias is None or not _TOKEN_ID.fullmatch(token):
            wanted = "token ids, each with a number from -100 to 100"
            raise fields.wrong("logit_bias", wanted, token)
        found.append((int(token), bias))
    return tuple(found)


def translated(
    body: JsonObject, request: GenerateRequest, ignored: Collection[str], *, strict: bool
) -> Translated:
    """Put a request together with what else its body says; `strict` refuses what is `ignored`."""
    return Translated(
        request,
        read_reply(body, logprobs=request.top_logprobs is not None),
        name_ignored(
            {*ignored, *unknown_within(body, "stream_options", _STREAM_OPTIONS)}, strict=strict
        ),
        fields.mapping(body, "roost"),
        read_cache_key(body),
    )


def name_ignored(names: Collection[str], *, strict: bool) -> tuple[str, ...]:
    """Return the names of fields without effect, in order and cut to size; refuse them if `strict`.

    Clients send fields that came after us, so by default they earn no error.
    """
    found = tuple(sorted(name[:IGNORED_NAME_CHARS_MAX] for name in names)[:IGNORED_NAMES_MAX])
    if strict and found:
        raise fail("bad_request", f"'{found[0]}' has no effect here; leave it out.", param=found[0])
    return found


def unknown_names(body: JsonObject, known: Collection[str]) -> set[str]:
    """Find the fields that are set and not `known`."""
    return {name for name, value in body.items() if value is not None and name not in known}


def unknown_within(body: JsonObject, name: str, known: Collection[str]) -> set[str]:
    """Find the fields that are set in the object `name` and not `known`, by their paths."""
    inner = body.get(name)
    found = unknown_names(inner, known) if isinstance(inner, dict) else set()
    return {f"{name}.{one}" for one in found}
