"""DECIDER: a body for /v1/completions becomes a request."""

from __future__ import annotations

from typing import TypeGuard

from roost.core.ids import ModelId
from roost.core.request import GenerateRequest, TextPrompt, TokensPrompt
from roost.dialects import fields
from roost.dialects import openai_options as shared
from roost.dialects.json_body import JsonObject, parse_object
from roost.errors import RoostError, fail

TOKEN_ID_MAX = 2**31 - 1
"""What every engine can hold; whether the model has this token is checked where the model is."""

_KNOWN = shared.SHARED_FIELDS | {"prompt", "best_of", "echo", "suffix"}


def read_completion(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a completion request; `strict` refuses fields that would have no effect.

    Raises `bad_request` or `unsupported`, both with the field at fault.
    """
    sent = parse_object(body)
    model = shared.read_model(sent)
    _refuse_best_of(sent)
    _refuse_echo_and_suffix(sent)
    top_logprobs = fields.whole(sent, "logprobs", 0, shared.TOP_LOGPROBS_MAX)
    request = GenerateRequest(
        model=ModelId(model or ""),
        prompt=_prompt(sent.get("prompt")),
        max_tokens=shared.read_max_tokens(sent, "max_tokens"),
        stop=shared.read_stop(sent),
        sampling=shared.read_sampling(sent),
        top_logprobs=top_logprobs,
        ignore_eos=fields.flag(sent, "ignore_eos") or False,
    )
    return shared.translated(sent, request, shared.unknown_names(sent, _KNOWN), strict=strict)


def _prompt(value: object) -> TextPrompt | TokensPrompt:
    """Read one prompt: text, token ids, or a list that holds exactly one of these."""
    if isinstance(value, list) and value and isinstance(value[0], (str, list)):
        if len(value) > 1:
            raise _wrong(f"one prompt per request is answered, got {len(value)}")
        value = value[0]
    if isinstance(value, str):
        if not value:
            raise _wrong("it must hold at least one character")
        return TextPrompt(value)
    if not isinstance(value, list):
        raise fields.wrong("prompt", "a string or an array of token ids", value)
    if not value:
        raise _wrong("it must hold at least one token")
    if not _all_ints(value) or not 0 <= min(value) <= max(value) <= TOKEN_ID_MAX:
        raise _wrong(f"token ids are whole numbers from 0 to {TOKEN_ID_MAX}")
    return TokensPrompt(tuple(value))


def _all_ints(values: list[object]) -> TypeGuard[list[int]]:
    """Check the types of a list that may hold millions, in one pass without a loop of our own."""
    return set(map(type, values)) == {int}


def _wrong(reason: str) -> RoostError:
    return fail("bad_request", f"'prompt' has a wrong value: {reason}.", param="prompt")


def _refuse_best_of(sent: JsonObject) -> None:
    """Refuse to make more answers than are given: nobody here says which is the best."""
    best = fields.whole(sent, "best_of", 1, shared.CHOICES_MAX)
    if best is not None and best != (fields.whole(sent, "n", 1, shared.CHOICES_MAX) or 1):
        message = "'best_of' must be as large as 'n': every answer that is made is given."
        raise fail("unsupported", message, param="best_of")


def _refuse_echo_and_suffix(sent: JsonObject) -> None:
    if fields.flag(sent, "echo"):
        raise fail("unsupported", "'echo' is not supported; send it false.", param="echo")
    if fields.text(sent, "suffix"):
        raise fail("unsupported", "'suffix' is not supported.", param="suffix")
