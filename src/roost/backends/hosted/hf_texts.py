"""SHELL: texts to tokens and tokens to bytes, by a model's `tokenizer.json`."""

from __future__ import annotations

import msgspec

from roost.backends.hosted.hf_vocabulary import Tokenizer, token_bytes


class _Pair:
    """A tokeniser twice: one that knows `special` tokens in a text, one to which it is all text."""

    def __init__(self, described: str) -> None:
        from tokenizers import Tokenizer as Fast

        try:
            self.special, self.plain = Fast.from_str(described), Fast.from_str(described)
        except Exception as error:
            # The library raises nothing narrower.
            raise ValueError("The model's tokeniser is none that can be read.") from error
        self.plain.encode_special_tokens = True
        for one in (self.special, self.plain):
            one.no_padding()
            one.no_truncation()

    def tokenize(self, piece: str, *, special: bool) -> list[int]:
        """Tokenise a piece and add nothing."""
        fast = self.special if special else self.plain
        ids: list[int] = fast.encode(piece, add_special_tokens=False).ids
        return ids


class Texts:
    """The tokeniser: texts to tokens with special ones or without, and tokens to bytes.

    `described` is what `tokenizer.json` says, `bos` what every prompt begins with; None leaves that
    to the description. Raises `ValueError`, in words for a person, for a tokeniser that is none or
    cannot be streamed.
    """

    def __init__(self, described: str, bos: tuple[int, ...] | None = None) -> None:
        self._pair = _Pair(described)
        told = msgspec.json.decode(described, type=Tokenizer)
        try:
            self.bytes_of = token_bytes(told, self._pair.special.get_vocab(with_added_tokens=False))
        except ValueError as error:
            raise ValueError(f"The model has {error}, which cannot be streamed.") from None
        self.bos = tuple(self._pair.special.encode("").ids[:1]) if bos is None else bos

    @property
    def longest_bytes(self) -> int:
        """The length of the longest token."""
        return max(map(len, self.bytes_of.values()), default=0)

    def raw(self, token: int) -> bytes:
        """Give the bytes of a token; none for special ones and those that nobody knows."""
        return self.bytes_of.get(token, b"")

    def tokenize(self, piece: str, *, special: bool) -> list[int]:
        """Tokenise a piece and add nothing."""
        return self._pair.tokenize(piece, special=special)


class Framed:
    """The tokeniser of texts that vectors are made of: `before` and `behind` each go tokens.

    How its tokens are spelt makes no difference. Raises `ValueError`, in words for a person.
    """

    def __init__(self, described: str) -> None:
        self._pair = _Pair(described)
        self.before, self.behind = self._around()

    def tokenize(self, piece: str, *, special: bool) -> list[int]:
        """Tokenise a piece and add nothing."""
        return self._pair.tokenize(piece, special=special)

    def _around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        whole, inner = self._pair.plain.encode("a").ids, self.tokenize("a", special=False)
        for at in range(len(whole) - len(inner) + 1):
            if whole[at : at + len(inner)] == inner:
                return tuple(whole[:at]), tuple(whole[at + len(inner) :])
        raise ValueError("The model's tokeniser changes a text that it puts tokens around.")
