"""MACHINE: bytes of UTF-8 in any pieces become text that never splits a character.

Tokens of byte-level vocabularies end anywhere, so one character may arrive in up to four pieces.
Only the unfinished trailing character is held back, at most three bytes, whatever the vocabulary.
"""

from __future__ import annotations

import codecs

_new_decoder = codecs.getincrementaldecoder("utf-8")

HALF = "\ufffd"
"""Stands for a character whose bytes are not all there."""


class Utf8Decoder:
    """An incremental decoder; invalid bytes become U+FFFD, as the Unicode standard recommends."""

    def __init__(self) -> None:
        self._decoder = _new_decoder("replace")

    @property
    def unfinished(self) -> bool:
        """Whether the beginning of a character waits for its end."""
        return bool(self._decoder.getstate()[0])

    def push(self, data: bytes) -> str:
        """Decode `data` and return all text that is complete by now."""
        return self._decoder.decode(data)

    def finish(self) -> str:
        """Return one U+FFFD if a character is still unfinished, "" otherwise, and start afresh."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest
