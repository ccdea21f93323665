"""DECIDER: the bytes of each token of a tokeniser, as `tokenizer.json` describes it.

Libraries decode lists of tokens to text, and half a character to a replacement sign. Streaming
needs the bytes of one token, half a character included; they follow from how tokens are spelt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from roost.text.byte_letters import BYTE_OF

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"


class Added(msgspec.Struct, frozen=True):
    """A token that was added to a vocabulary; a special one is never shown."""

    id: int
    content: str
    special: bool = False


class Decoder(msgspec.Struct, frozen=True):
    """How tokens become text: a kind, and the steps where it is a sequence of them."""

    type: str = ""
    decoders: tuple[Decoder, ...] = ()

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of it and of its steps."""
        return frozenset({self.type}).union(*(one.kinds for one in self.decoders))


class Tokenizer(msgspec.Struct, frozen=True):
    """What `tokenizer.json` says, as far as bytes of tokens follow from it."""

    decoder: Decoder | None = None
    added_tokens: tuple[Added, ...] = ()


def token_bytes(tokenizer: Tokenizer, spelt: Mapping[str, int]) -> dict[int, bytes]:
    """Give the bytes of every token of `spelt`, a vocabulary; none for special ones.

    Raises `ValueError` for a tokeniser whose tokens are spelt in a way that is not known here.
    """
    kinds = tokenizer.decoder.kinds if tokenizer.decoder else frozenset[str]()
    if "ByteLevel" in kinds:
        found = dict(_of_bytes(spelt))
    elif kinds & {"ByteFallback", "Metaspace"}:
        found = dict(_of_pieces(spelt))
    else:
        raise ValueError(f"tokens of the kind {'+'.join(sorted(kinds)) or 'none'}")
    for added in tokenizer.added_tokens:
        found[added.id] = b"" if added.special else added.content.encode()
    return found


def _of_bytes(spelt: Mapping[str, int]) -> Iterator[tuple[int, bytes]]:
    for text, token in spelt.items():
        known = (bytes((BYTE_OF[c],)) if c in BYTE_OF else c.encode() for c in text)
        yield token, b"".join(known)


def _of_pieces(spelt: Mapping[str, int]) -> Iterator[tuple[int, bytes]]:
    for text, token in spelt.items():
        byte = _BYTE.fullmatch(text)
        yield token, bytes((int(byte[1], 16),)) if byte else text.replace(_SPACE, " ").encode()
