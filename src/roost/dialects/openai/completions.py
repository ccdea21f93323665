"""DECIDER: a body for /v1/completions becomes a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import msgspec

from roost.core.ids import ModelId
from roost.core.request import GenerateRequest, TextPrompt, TokensPrompt
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, parse_object
from roost.dialects.openai import options as shared
from roost.dialects.openai.formats import read_constraint
from roost.errors import RoostError, fail

TOKEN_ID_MAX = 2**31 - 1
"""What every engine can hold; whether the model has this token is checked where the model is."""

FIELDS = shared.SHARED_FIELDS | {
    *("prompt", "best_of", "echo", "suffix", "response_format", "grammar")
}


def read_completion(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a completion request; `strict` refuses fields that would have no effect.

    Raises `bad_request` or `unsupported`, both with the field at fault.
    """
    sent = parse_object(body)
    model = shared.read_model(sent)
    _refuse_best_of(sent)
    if fields.text(sent, "suffix"):
        raise fail("unsupported", "'suffix' is not supported.", param="suffix")
    prompts = _prompts(sent.get("prompt"))
    top_logprobs = fields.whole(sent, "logprobs", 0, shared.TOP_LOGPROBS_MAX)
    request = GenerateRequest(
        model=ModelId(model or ""),
        prompt=prompts[0],
        max_tokens=shared.read_max_tokens(sent, "max_tokens"),
        stop=shared.read_stop(sent),
        sampling=shared.read_sampling(sent),
        top_logprobs=top_logprobs,
        ignore_eos=fields.flag(sent, "ignore_eos") or False,
        constraint=read_constraint(sent),
    )
    found = shared.translated(sent, request, shared.unknown_names(sent, FIELDS), strict=strict)
    return _of_all(found, prompts, echo=_read_echo(sent, request, prompts))


def _of_all(
    found: shared.Translated, prompts: tuple[TextPrompt | TokensPrompt, ...], *, echo: bool
) -> shared.Translated:
    """Ask for as many choices of each prompt as of one."""
    choices = found.options.choices * len(prompts)
    if choices > shared.CHOICES_MAX:
        raise _wrong(f"at most {shared.CHOICES_MAX} answers per request are given, got {choices}")
    options = msgspec.structs.replace(found.options, choices=choices, echo=echo)
    return msgspec.structs.replace(found, options=options, more=prompts[1:])


def _prompts(value: object) -> tuple[TextPrompt | TokensPrompt, ...]:
    """Read one prompt, text or token ids, or a list of such."""
    if isinstance(value, list) and value and isinstance(value[0], (str, list)):
        return tuple(_prompt(one) for one in value)
    return (_prompt(value),)


def _prompt(value: object) -> TextPrompt | TokensPrompt:
    if isinstance(value, str):
        if not value:
            raise _wrong("it must hold at least one character")
        return TextPrompt(value)
    if not isinstance(value, list):
        raise fields.wrong("prompt", "a string or an array of token ids", value)
    if not value:
        raise _wrong("it must hold at least one token")
    if not are_whole(value) or not 0 <= min(value) <= max(value) <= TOKEN_ID_MAX:
        raise _wrong(f"token ids are whole numbers from 0 to {TOKEN_ID_MAX}")
    return TokensPrompt(tuple(value))


def are_whole(values: list[object]) -> TypeGuard[list[int]]:
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


def _read_echo(
    sent: JsonObject, request: GenerateRequest, prompts: Sequence[TextPrompt | TokensPrompt]
) -> bool:
    """Read whether answers begin with their prompts, which have to be texts for that."""
    if not fields.flag(sent, "echo"):
        return False
    if request.top_logprobs is not None or not all(isinstance(p, TextPrompt) for p in prompts):
        message = "'echo' gives texts back: no token ids, and no 'logprobs' of what was sent."
        raise fail("unsupported", message, param="echo")
    return True
