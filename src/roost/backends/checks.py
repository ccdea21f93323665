"""DECIDER: the last look at a request before native code gets it.

A dialect has checked the same fields already; here they are checked against the model and by type
as well, because a wrong number in native code is no error message but a crash or a foreign read.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence

from roost.backends.base import EMBED_BATCH_MAX, Prepared, SlotUse
from roost.core.engine import Mode, lack
from roost.core.model import Capabilities, RuntimeOptions
from roost.core.request import (
    BIASES_MAX,
    ChatPrompt,
    GenerateRequest,
    Grammar,
    JsonAny,
    JsonSchema,
    Prompt,
    Sampling,
    TextPrompt,
    mode_for,
)
from roost.errors import RoostError, fail, prompt_too_long

STOPS_MAX = 16
STOP_CHARS_MAX = 4096
TOP_LOGPROBS_MAX = 20
REAL = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
}
_BIAS = (-100.0, 100.0)
_STATE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}")
WHOLE = {"top_k": (0, 1_000_000), "seed": (0, 2**32 - 1)}


def check_request(request: GenerateRequest) -> None:
    """Check every number and text of a request; raises `bad_request` naming the field.

    One for vectors is `unsupported`: those are made in another way.
    """
    if (asked := mode_for(request.prompt)) != "generate":
        raise _not_for("generate", asked)
    _check_sampling(request.sampling)
    _check_stops(request.stop)
    _check_prompt(request.prompt)
    if request.max_tokens is not None and not (
        _is_int(request.max_tokens) and request.max_tokens > 0
    ):
        raise fail("bad_request", "max_tokens must be a whole number above 0.", param="max_tokens")
    if request.top_logprobs is not None and not _whole_in(
        request.top_logprobs, 0, TOP_LOGPROBS_MAX
    ):
        message = f"top_logprobs must be a whole number from 0 to {TOP_LOGPROBS_MAX}."
        raise fail("bad_request", message, param="top_logprobs")

    _check_constraint(request)


def check_claimed(request: GenerateRequest, claims: Capabilities) -> None:
    """Refuse what the backend does not claim to do; raises `unsupported` naming the field."""
    constraint = request.constraint
    for asked, claimed, what, param in (
        (request.top_logprobs is not None, claims.logprobs, "log probabilities", "logprobs"),
        (request.sampling.logit_bias, claims.logit_bias, "biases of tokens", "logit_bias"),
        (request.counts, claims.exact_token_count, "counts of tokens", "messages"),
        (isinstance(constraint, Grammar), claims.grammar, "grammars", "grammar"),
        (
            isinstance(constraint, (JsonAny, JsonSchema)),
            claims.json_schema,
            "answers in JSON",
            "response_format",
        ),
    ):
        if asked and not claimed:
            raise fail("unsupported", f"This model's backend has no {what}.", param=param)


def _check_constraint(request: GenerateRequest) -> None:
    """Check what an answer is held to as far as it is no matter of its text."""
    constraint = request.constraint
    if constraint is None:
        return
    good = isinstance(constraint, JsonAny) or (
        isinstance(constraint, (JsonSchema, Grammar)) and isinstance(constraint.text, str)
    )
    if not good:
        raise fail("bad_request", "There is no such format.", param="response_format")
    if request.ignore_eos:
        message = "ignore_eos keeps an answer from its end, and a format asks for one."
        raise fail("bad_request", message, param="ignore_eos")
    if request.continuation is not None:
        raise fail("unsupported", "An answer that is held to a format cannot be continued.")


def _check_sampling(sampling: Sampling) -> None:
    for name, (low, high) in REAL.items():
        value = getattr(sampling, name)
        # A comparison with NaN is false, so NaN is outside every range.
        if value is not None and not (_is_number(value) and low <= value <= high):
            raise fail("bad_request", f"{name} must be from {low:g} to {high:g}.", param=name)
    _check_biases(sampling.logit_bias)
    for name, (least, most) in WHOLE.items():
        value = getattr(sampling, name)
        if value is not None and not _whole_in(value, least, most):
            message = f"{name} must be a whole number from {least} to {most}."
            raise fail("bad_request", message, param=name)


def _check_biases(biases: Sequence[object]) -> None:
    """Check how many there are and their form; which tokens there are is checked later."""
    low, high = _BIAS
    for bias in biases:
        pair = bias if isinstance(bias, tuple) and len(bias) == 2 else (None, "")
        if not (_is_int(pair[0]) and _is_number(pair[1]) and low <= float(pair[1]) <= high):
            message = f"logit_bias has token ids, each with a number from {low:g} to {high:g}."
            raise fail("bad_request", message, param="logit_bias")
    if len(biases) > BIASES_MAX:
        message = f"logit_bias takes at most {BIASES_MAX} tokens."
        raise fail("bad_request", message, param="logit_bias")


def check_biases(sampling: Sampling, vocab_size: int) -> None:
    """Check that biases are of tokens that the model has; raises `bad_request`."""
    if any(not 0 <= token < vocab_size for token, _ in sampling.logit_bias):
        message = f"logit_bias has token ids from 0 to {vocab_size - 1}."
        raise fail("bad_request", message, param="logit_bias")


def _check_stops(stops: Sequence[str]) -> None:
    good = len(stops) <= STOPS_MAX and all(
        isinstance(stop, str) and 0 < len(stop) <= STOP_CHARS_MAX for stop in stops
    )
    if not good:
        message = f"stop takes at most {STOPS_MAX} texts of 1 to {STOP_CHARS_MAX} characters."
        raise fail("bad_request", message, param="stop")


def _check_prompt(prompt: Prompt) -> None:
    """Refuse half characters (lone surrogates): they are in no encoding that a process is told."""
    if isinstance(prompt, ChatPrompt):
        texts = list(_texts(prompt))
    else:
        texts = [prompt.text] if isinstance(prompt, TextPrompt) else []
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        param = "messages" if isinstance(prompt, ChatPrompt) else "prompt"
        raise fail("bad_request", "The text holds half a character.", param=param) from None


def _texts(prompt: ChatPrompt) -> Iterator[str]:
    for message in prompt.messages:
        yield from (message.content, message.name or "", message.reasoning)
        for call in message.calls:
            yield from (call.name, call.arguments)
    for tool in prompt.offer.tools if prompt.offer else ():
        yield from (tool.name, tool.description, tool.parameters)


def check_tokens(tokens: Sequence[int], vocab_size: int) -> None:
    """Check that a prompt has tokens and that each is one of the model's; raises `bad_request`."""
    if not tokens:
        raise fail("bad_request", "The prompt is empty.", param="prompt")
    if not _are_ids(tokens, vocab_size):
        message = f"Token ids must be whole numbers from 0 to {vocab_size - 1}."
        raise fail("bad_request", message, param="prompt")


def limit_of(request: GenerateRequest, prompt_tokens: int, ctx: int) -> int:
    """Say how many tokens may be generated; raises `context_length_exceeded` where not even one.

    A prompt that is only counted may have any length. `prompt_tokens` includes those that a
    continued answer has already; such an answer may turn out to be complete, and then it is 0.
    """
    if request.counts:
        return 0
    room, said = ctx - prompt_tokens, len(request.said)
    if room < (0 if said else 1):
        raise too_long(request, prompt_tokens, ctx)
    return room if request.max_tokens is None else max(0, min(room, request.max_tokens - said))


def too_long(request: GenerateRequest, prompt_tokens: int, ctx: int) -> RoostError:
    """Say that a prompt does not fit, in words that clients recognise."""
    param = "messages" if isinstance(request.prompt, ChatPrompt) else "prompt"
    return RoostError(prompt_too_long(prompt_tokens, ctx, param))


def check_size(
    request: GenerateRequest, texts: Iterable[str], max_token_bytes: int, ctx: int
) -> None:
    """Refuse text that cannot fit even if every token were the longest, before it is tokenised."""
    if max_token_bytes < 1:
        return
    size_bytes = sum(len(text.encode()) for text in texts)
    fewest = -(-size_bytes // max_token_bytes)
    if fewest > ctx:
        raise too_long(request, fewest, ctx)


def check_alive(*, ended: bool) -> None:
    """Refuse what is asked of a runtime after its end; raises `runtime_died`."""
    if ended:
        raise fail("runtime_died", "The runtime has ended.")


def check_mode(options: RuntimeOptions, mode: Mode) -> None:
    """Refuse what a runtime is not for; raises `unsupported`."""
    if options.mode != mode:
        raise _not_for(options.mode, mode)


def _not_for(own: Mode, asked: Mode) -> RoostError:
    return fail("unsupported", f"This runtime {lack(own, asked)}.", param="model")


def check_pairs(
    query: str,
    documents: Sequence[str],
    control_tokens: Iterable[str],
    max_token_bytes: int,
    ctx: int,
) -> None:
    """Check texts that are to be scored; raises as `base.Ranker.pairs` says.

    An engine that is given texts may take what is written there for its own marks between query and
    document.
    """
    if not documents:
        raise fail("bad_request", "There is no document.", param="documents")
    for place, text in enumerate((query, *documents)):
        where, param = ("The query", "query") if not place else (_document(place), "documents")
        mark = next((mark for mark in control_tokens if mark in text), None)
        if mark is not None:
            message = f"{where} holds {mark!r}, which steers this model: leave it out."
            raise fail("bad_request", message, param=param)
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError:
            raise fail("bad_request", f"{where} holds half a character.", param=param) from None
        if max_token_bytes and size_bytes > ctx * max_token_bytes:
            message = f"{where} has more than the {ctx} tokens that fit (`ctx`)."
            raise fail("context_length_exceeded", message, param=param)


def check_lengths(pairs: Sequence[Sequence[int]], around: int, ctx: int) -> None:
    """Check that each pair fits with the tokens `around` it; raises `context_length_exceeded`."""
    for place, tokens in enumerate(pairs, 1):
        if len(tokens) + around > ctx:
            count = len(tokens) + around
            message = (
                f"{_document(place)} and the query have {count} tokens, of which {ctx} fit (`ctx`)."
            )
            raise fail("context_length_exceeded", message, param="documents")


def _document(place: int) -> str:
    return f"Document {place - 1}"


def check_batch(batch: Sequence[Sequence[int]], vocab_size: int, ctx: int) -> None:
    """Check what vectors are to be made of at once; raises as `base.Embedder.embed` says."""
    if not 0 < len(batch) <= EMBED_BATCH_MAX:
        message = f"There may be 1 to {EMBED_BATCH_MAX} inputs, got {len(batch)}."
        raise fail("bad_request", message, param="input")
    check_inputs(batch, vocab_size, ctx)


def check_inputs(batch: Sequence[Sequence[int]], vocab_size: int, ctx: int) -> None:
    """Check inputs; raises as `base.Embedder.tokenize` says."""
    for place, tokens in enumerate(batch):
        if not tokens:
            raise fail("bad_request", f"Input {place} is empty.", param="input")
        if len(tokens) > ctx:
            message = f"Input {place} has {len(tokens)} tokens, of which {ctx} fit (`ctx`)."
            raise fail("context_length_exceeded", message, param="input")
        if not _are_ids(tokens, vocab_size):
            message = f"Token ids must be whole numbers from 0 to {vocab_size - 1}."
            raise fail("bad_request", message, param="input")


def check_texts(inputs: Sequence[str | tuple[int, ...]], max_token_bytes: int, ctx: int) -> None:
    """Check texts before they become tokens; raises as `base.Embedder.tokenize` says."""
    if not inputs:
        raise fail("bad_request", "There is no input.", param="input")
    for place, text in enumerate(inputs):
        if not isinstance(text, str):
            continue
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError:
            message = f"Input {place} holds half a character."
            raise fail("bad_request", message, param="input") from None
        if max_token_bytes and size_bytes > ctx * max_token_bytes:
            message = f"Input {place} has more than the {ctx} tokens that fit (`ctx`)."
            raise fail("context_length_exceeded", message, param="input")


def check_state(slot: int, name: str, slots: int) -> None:
    """Check which slot and which file are meant; raises `bad_request`."""
    if not _whole_in(slot, 0, slots - 1):
        raise fail("bad_request", f"There is no such slot; slots are 0 to {slots - 1}.")
    if not _STATE_NAME.fullmatch(name):
        raise fail("bad_request", "A state's name is letters, digits, dots and dashes.")


def check_place(prepared: Prepared, use: SlotUse, *, slots: int, ctx: int) -> None:
    """Check that there is such a slot and that the answer fits it; raises `bad_request`."""
    if not _whole_in(use.slot, 0, slots - 1):
        raise fail("bad_request", f"There is no such slot; slots are 0 to {slots - 1}.")
    least = 0 if prepared.request.said else 1
    if not _whole_in(prepared.limit, least, ctx - len(prepared.tokens)):
        raise fail("bad_request", "The prompt and the answer's limit do not fit the slot.")


def check_free(slot: int, taken: Container[int]) -> None:
    """Refuse a slot that has an answer, which is a defect of the caller; raises `internal`."""
    if slot in taken:
        raise fail("internal", "Two streams were given one slot.")


def _whole_in(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and _is_int(value) and least <= value <= most


def _are_ids(tokens: Sequence[int], vocab_size: int) -> bool:
    """Whether these are whole numbers within a vocabulary."""
    # A set of types: a call for each token of a long prompt holds the loop up for milliseconds.
    return set(map(type, tokens)) == {int} and min(tokens) >= 0 and max(tokens) < vocab_size


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
