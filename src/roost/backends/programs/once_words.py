"""DECIDER: what a program that answers one request is told, and what its words mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from roost.backends.checks import REAL, WHOLE
from roost.core.card import Asked, Output
from roost.core.request import GenerateRequest
from roost.errors import fail

ARGUMENT_MAX_BYTES = 128 * 1024 - 1
"""What Linux takes as one argument; other systems take more."""

_NAMES = re.compile(r"\{(path|ctx|threads|max_tokens|prompt|prompt_file)\}")
_DIGITS = re.compile(r"\d{1,9}")
_NOTHING = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Values that change nothing; many clients send them with every request."""


class Recipe(msgspec.Struct, frozen=True):
    """How to have one request answered: `argv` and the rest as in `roost.core.card.Once`."""

    argv: tuple[str, ...]
    path: str
    ctx: int
    options: Mapping[Asked, tuple[str, ...]]
    output: Output
    time_limit_s: float
    output_max_bytes: int
    control_tokens: tuple[str, ...] = ()
    threads: int = 0

    @property
    def as_argument(self) -> bool:
        """Whether the prompt is an argument, which anybody on the machine can read."""
        return any("{prompt}" in word for word in self.argv)

    @property
    def as_file(self) -> bool:
        """Whether the program is told of a file with the prompt, and not given it as input."""
        return any("{prompt_file}" in word for word in self.argv)


def words(
    recipe: Recipe, request: GenerateRequest, *, prompt: str, prompt_file: str, limit: int
) -> tuple[str, ...]:
    """Write the whole command; whatever is filled in is not looked at again."""
    known = {
        "path": recipe.path,
        "ctx": str(recipe.ctx),
        "threads": str(recipe.threads),
        "max_tokens": str(limit),
        "prompt": prompt,
        "prompt_file": prompt_file,
    }
    written = [_NAMES.sub(lambda found: known[found[1]], word) for word in recipe.argv]
    for name, value in asked(request).items():
        told = recipe.options.get(name, ())
        written += [word.replace("{value}", f"{value}") for word in told]
    return tuple(written)


def asked(request: GenerateRequest) -> dict[Asked, float | int]:
    """Give what a client asks for beyond the prompt and the limit; what changes nothing is left."""
    found: dict[Asked, float | int] = {}
    for name in (*REAL, *WHOLE):
        value = getattr(request.sampling, name)
        if value is not None and value != _NOTHING.get(name):
            found[name] = value  # type: ignore[index]  # REAL and WHOLE have the names of Asked
    if request.ignore_eos:
        found["ignore_eos"] = 1
    return found


def check_told(recipe: Recipe, request: GenerateRequest) -> None:
    """Refuse what the program cannot be told; raises `unsupported` naming the field."""
    if request.said:
        raise fail("unsupported", "A program that ends with its answer cannot go on with one.")
    for name in asked(request):
        if name not in recipe.options:
            message = f"This model's program has no word for {name}; leave it out."
            raise fail("unsupported", message, param=name)


def check_prompt(recipe: Recipe, prompt: str) -> None:
    """Refuse a prompt that cannot be one word of a command; raises `bad_request`."""
    if not prompt:
        raise fail("bad_request", "The prompt is empty.", param="prompt")
    if not recipe.as_argument:
        return
    if "\0" in prompt:
        raise fail("bad_request", "The prompt holds a zero byte.", param="prompt")
    if len(prompt.encode()) > ARGUMENT_MAX_BYTES - max(map(len, recipe.argv)):
        message = "The prompt is longer than this model's program can be told."
        raise fail("bad_request", message, param="prompt")
    if prompt.startswith("-") and "{prompt}" in recipe.argv:
        # Its own program would take it for an option, and options can be anything.
        raise fail("bad_request", "This model's prompts cannot begin with a dash.", param="prompt")


def joined(pieces: Sequence[str], control_tokens: Sequence[str]) -> str:
    """Join a rendered prompt; raises `bad_request` where that makes a control token.

    Pieces are cut so that no text of a user's is such a token. A program that is given one text
    would see it there all the same, and with it a turn that nobody has taken.
    """
    text, at = "".join(pieces), 0
    for piece in pieces[:-1]:
        at += len(piece)
        for token in control_tokens:
            size = len(token)
            if size > 1 and token in text[max(0, at - size + 1) : at + size - 1]:
                raise _steering(token, "messages")
    return text


def check_plain(text: str, control_tokens: Sequence[str]) -> None:
    """Refuse a raw prompt that holds a control token; raises `bad_request`."""
    for token in control_tokens:
        if token and token in text:
            raise _steering(token, "prompt")


def _steering(token: str, param: str) -> Exception:
    message = f"The text holds {token!r}, which this model's program would take for a command."
    return fail("bad_request", message, param=param)


def count_in(text: str, mark: str) -> int | None:
    """Find the last number that stands where `{count}` does; None where there is none."""
    before, _, after = mark.partition("{count}")
    at = text.rfind(before) if before else -1
    while at >= 0:
        found = _DIGITS.match(text, at + len(before))
        if found and text.startswith(after, found.end()):
            return int(found[0])
        at = text.rfind(before, 0, at + len(before) - 1)
    return None
