"""The bytes of tokens, as the tokenisers of Hugging Face spell them."""

from __future__ import annotations

import msgspec
import pytest

from roost.backends.hosted.hf_vocabulary import Tokenizer, token_bytes


def described(decoder: object, *added: dict[str, object]) -> Tokenizer:
    """Read what a `tokenizer.json` says."""
    raw = msgspec.json.encode({"decoder": decoder, "added_tokens": added, "model": {}})
    return msgspec.json.decode(raw, type=Tokenizer)


def test_letters_stand_for_bytes() -> None:
    """Byte-level vocabularies write every byte as a letter; a space is Ġ, ä is two of them."""
    found = token_bytes(described({"type": "ByteLevel"}), {"Ġhi": 0, "Ã¤": 1, "Ã": 2, "Ċ": 3})
    assert found == {0: b" hi", 1: "ä".encode(), 2: b"\xc3", 3: b"\n"}


def test_every_byte_has_a_letter() -> None:
    """All 256 of them, no two alike."""
    letters = [chr(n) for n in (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x144))]
    found = token_bytes(described({"type": "ByteLevel"}), {c: n for n, c in enumerate(letters)})
    assert sorted(found.values()) == [bytes((n,)) for n in range(256)]


def test_pieces_have_a_sign_for_spaces_and_names_for_bytes() -> None:
    """As SentencePiece's vocabularies do."""
    steps = [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    decoder = {"type": "Sequence", "decoders": steps}
    found = token_bytes(described(decoder), {"▁one": 0, "<0xC3>": 1, "ä": 2})
    assert found == {0: b" one", 1: b"\xc3", 2: "ä".encode()}
    assert token_bytes(described({"type": "Metaspace"}), {"▁": 0}) == {0: b" "}


def test_special_tokens_are_never_shown() -> None:
    """Others that were added are, as they are written."""
    added = (
        {"id": 5, "content": "<|im_end|>", "special": True},
        {"id": 6, "content": "<tööl>", "special": False},
    )
    found = token_bytes(described({"type": "ByteLevel"}, *added), {"a": 0})
    assert found == {0: b"a", 5: b"", 6: "<tööl>".encode()}


@pytest.mark.parametrize("decoder", [None, {"type": "WordPiece"}])
def test_other_tokenisers_are_refused(decoder: object) -> None:
    """Their tokens have no bytes of their own."""
    with pytest.raises(ValueError, match="tokens of the kind"):
        token_bytes(described(decoder), {"a": 0})
