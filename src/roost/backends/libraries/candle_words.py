"""DECIDER: tokens as words of a text, for a library that takes texts alone and tokenises them.

The library is given a tokeniser of which every token is one word, whatever the token means. A list
of tokens becomes their words with a gap between each two, and the library's words are the tokens
that it says. So no text of a user ever reaches the library: what becomes of it is decided before,
and nothing that is written there can become a control token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_GAPS = range(0xE000, 0xF900)
"""Characters that mean nothing to anybody."""


class Words:
    """A word for each token. Raises `ValueError`, in words for a person, for ones that cannot be.

    The library shows what is spelt `<0x0A>` as that byte, so no word may look like it.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._tokens = {word: token for token, word in enumerate(words)}
        if len(self._tokens) < len(words) or "" in self._tokens:
            raise ValueError("The model has tokens that are spelt alike.")
        if any(map(_BYTE.fullmatch, words)):
            raise ValueError("The model has tokens for single bytes.")
        used = set().union(*words)
        self._gap = next(char for char in map(chr, _GAPS) if char not in used)

    def described(self) -> bytes:
        """Write the tokeniser as a `tokenizer.json`."""
        pattern = {"String": self._gap}
        split = {"type": "Split", "pattern": pattern, "behavior": "Removed", "invert": False}
        # Of the decoders that the library knows, the one that leaves words as they are spelt.
        decoders = [{"type": "ByteFallback"}, {"type": "Fuse"}]
        described = {
            "version": "1.0",
            "added_tokens": [],
            "pre_tokenizer": split,
            "decoder": {"type": "Sequence", "decoders": decoders},
            "model": {"type": "WordLevel", "vocab": self._tokens, "unk_token": self._words[0]},
        }
        return msgspec.json.encode(described)

    def text(self, tokens: Iterable[int]) -> str:
        """Write tokens as a text."""
        return self._gap.join([self._words[token] for token in tokens])

    def token(self, word: str) -> int:
        """Give the token of a word; raises `KeyError` for what is none."""
        return self._tokens[word]


def numbered(size: int, named: Mapping[int, str]) -> list[str]:
    """Give words for a vocabulary whose spelling does not matter: `named` ones keep their names."""
    return [named.get(token, f"#{token}") for token in range(size)]
