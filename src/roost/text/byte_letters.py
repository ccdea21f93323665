"""VALUE: the letters in which byte-level vocabularies spell their tokens, one for each byte.

A byte that is a visible character of Latin-1 stands for itself, the others follow from U+0100 on.
"""

from __future__ import annotations

_SEEN = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_REST = (byte for byte in range(256) if byte not in _SEEN)

BYTE_OF = {chr(byte): byte for byte in _SEEN} | {
    chr(256 + number): byte for number, byte in enumerate(_REST)
}
"""The byte that each of the 256 letters stands for."""
