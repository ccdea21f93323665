"""MACHINE: log probabilities in the two shapes that OpenAI's APIs have for them.

JSON has no infinity, and constrained decoding gives tokens of probability zero: there is a floor.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from roost.core.events import TokenChoice, TokenLogprob
from roost.dialects.json_text import clean, escape_line_ends
from roost.text.utf8 import Utf8Decoder

LOGPROB_FLOOR = -9999.0

_encode = msgspec.json.Encoder().encode


def finite(logprob: float) -> float:
    """Bring a log probability into `LOGPROB_FLOOR`..0; NaN becomes the floor."""
    return min(0.0, logprob) if logprob > LOGPROB_FLOOR else LOGPROB_FLOOR


def chat_logprobs(choices: Iterable[TokenChoice]) -> bytes:
    """Encode the `logprobs` object of a chat; `bytes` are raw, also of partial characters."""
    return escape_line_ends(_encode(_Content(_listed(choices))))


def plain_logprobs(choices: Iterable[TokenChoice]) -> bytes:
    """Encode the list that is in such an object alone, as Ollama has it."""
    return escape_line_ends(_encode(_listed(choices)))


def _listed(choices: Iterable[TokenChoice]) -> list[_Choice]:
    return [
        _Choice(*_entry(choice.chosen), [_Entry(*_entry(token)) for token in choice.top])
        for choice in choices
    ]


class _Entry(msgspec.Struct, gc=False):
    token: str
    logprob: float
    bytes: list[int]


class _Choice(_Entry):
    top_logprobs: list[_Entry]


class _Content(msgspec.Struct):
    content: list[_Choice]
    refusal: None = None


def _entry(token: TokenLogprob) -> tuple[str, float, list[int]]:
    text = token.text if token.text.isascii() else clean(token.text)
    return text, finite(token.logprob), list(token.raw)


class CompletionLogprobs:
    """The parallel lists of a completion, whose offsets run on from piece to piece.

    Offsets count characters of the answer, from 0; a token that continues a character has the
    offset of that character. A token that is not text by itself is named by its bytes, so that two
    of them never share a key.
    """

    def __init__(self) -> None:
        self._decoder = Utf8Decoder()
        self._offset = 0

    def encode(self, choices: Iterable[TokenChoice]) -> bytes:
        """Encode the `logprobs` object for the next tokens of the answer."""
        choices = tuple(choices)
        found = {
            "tokens": [_name(choice.chosen) for choice in choices],
            "token_logprobs": [finite(choice.chosen.logprob) for choice in choices],
            "top_logprobs": [
                {_name(token): finite(token.logprob) for token in choice.top} for choice in choices
            ],
            "text_offset": [self._next_offset(choice.chosen.raw) for choice in choices],
        }
        return escape_line_ends(_encode(found))

    def _next_offset(self, raw: bytes) -> int:
        offset = self._offset
        self._offset += len(self._decoder.push(raw))
        return offset


def _name(token: TokenLogprob) -> str:
    try:
        return token.raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.raw)
