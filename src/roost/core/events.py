"""VALUE: what happens on a stream between a runtime and a client, in the order it may happen.

    Started? PrefillProgress* (Delta* | Vectors*) (Finished | Failed)

`Started` comes once the prompt's cached part is known and the slot is taken; exactly one of the two
terminal events ends every stream. Text in `Delta` never splits a character.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.core.reading import Reading
from roost.errors import Failure

FinishReason = Literal["stop", "length"]


class Usage(msgspec.Struct, frozen=True):
    """Token counts as the runtime reports them.

    `prompt_tokens` includes `cached_tokens`; prefill really computed is the difference.
    `completion_tokens` includes `reasoning_tokens`, those of thoughts.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0


class TokenLogprob(msgspec.Struct, frozen=True):
    """One token with its natural log probability; `raw` holds its bytes, even half a character."""

    text: str
    logprob: float
    raw: bytes


class TokenChoice(msgspec.Struct, frozen=True):
    """The token that was drawn and the most likely alternatives, best first."""

    chosen: TokenLogprob
    top: tuple[TokenLogprob, ...] = ()


class Started(msgspec.Struct, frozen=True, tag="started", omit_defaults=True):
    """The request holds a slot. `cached_tokens` of `prompt_tokens` need no prefill.

    `reading` says how the answer's text is to be read; None where all of it is text. `digest` is
    that of the weights, filled in by whoever chose the node. `trimmed` messages of the conversation
    were left out, because it asked for that and is too long.
    """

    prompt_tokens: int
    cached_tokens: int
    slot: int
    reading: Reading | None = None
    digest: str = ""
    trimmed: int = 0


class PrefillProgress(msgspec.Struct, frozen=True, tag="prefill"):
    """`done` of `total` prompt tokens are in the KV cache; also a sign of life."""

    done: int
    total: int


class Delta(msgspec.Struct, frozen=True, tag="delta", omit_defaults=True):
    """New text. `tokens` counts the tokens behind it and may be 0 for text that was held back.

    `ids` are those tokens, where the request asks for them: the whole text of each is out, in this
    delta or before. Fewer ids than tokens: the rest cannot be told, or ends the answer.
    """

    text: str
    tokens: int = 1
    logprobs: tuple[TokenChoice, ...] = ()
    ids: tuple[int, ...] = ()


class Vectors(msgspec.Struct, frozen=True, tag="vectors"):
    """Vectors of the inputs that come next, in their order; see `core.vectors` for `data`.

    Each is `size` numbers. Only a request for vectors is answered by them, or one for scores: there
    each is one number.
    """

    size: int
    data: bytes


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """The model is done. `stop_text` is the stop string that ended it, if one did."""

    reason: FinishReason
    usage: Usage
    stop_text: str | None = None


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The stream ended without a complete answer; `usage` is what had been spent until then."""

    failure: Failure
    usage: Usage = Usage()


StreamEvent: TypeAlias = Started | PrefillProgress | Delta | Vectors | Finished | Failed
Terminal: TypeAlias = Finished | Failed
TERMINAL = (Finished, Failed)


def merge_deltas(first: Delta, second: Delta) -> Delta:
    """Join two neighbouring deltas into one, losing nothing but the boundary between them."""
    return Delta(
        first.text + second.text,
        first.tokens + second.tokens,
        first.logprobs + second.logprobs,
        first.ids + second.ids,
    )
