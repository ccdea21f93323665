"""A vocabulary as a file of its own: the tokeniser as it was, and next to no weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.store.models.inspection import inspect, write_vocabulary
from roost.store.models.vocabulary_file import vocabulary_file
from roost.text.gguf import pairs, read_header
from tests.store.gguf_writer import Typed, tiny


def entries(raw: bytes) -> dict[str, bytes]:
    """List a file's metadata as it is written."""
    return {key: raw[start:end] for key, start, end in pairs(raw, read_header(raw))}


def test_what_tokenises_is_copied_byte_for_byte(tmp_path: Path) -> None:
    """Every entry of the tokeniser and of the model's own name, and no other network's shape."""
    raw = tiny(
        **{"tokenizer.ggml.pre": Typed("str", "smollm"), "general.name": Typed("str", "phi-3")}
    )
    model, small = tmp_path / "model.gguf", tmp_path / "small.gguf"
    model.write_bytes(raw)
    write_vocabulary(model, small)
    written = small.read_bytes()
    before, after = entries(raw), entries(written)
    left_out = {"general.architecture", "tokenizer.chat_template"}
    copied = {
        key for key in before if key.startswith(("tokenizer.", "general.")) and key not in left_out
    }
    assert {"tokenizer.ggml.tokens", "tokenizer.ggml.pre", "general.name"} <= copied
    assert {key: after[key] for key in copied} == {key: before[key] for key in copied}
    assert {key for key in after if key not in copied} == {
        "general.architecture",
        *(key for key in after if key.startswith("llama.")),
    }


def test_the_file_is_a_sound_model(tmp_path: Path) -> None:
    """Our own checks let it pass, with the vocabulary of the model it was made from."""
    model, small = tmp_path / "model.gguf", tmp_path / "small.gguf"
    model.write_bytes(tiny())
    write_vocabulary(model, small)
    of_model, of_small = inspect(model), inspect(small)
    assert of_small.vocab_size == of_model.vocab_size
    assert of_small.control_tokens == of_model.control_tokens
    assert (of_small.bos, of_small.eos, of_small.add_bos) == (
        of_model.bos,
        of_model.eos,
        of_model.add_bos,
    )
    assert small.stat().st_size < 64_000


def test_a_model_without_tokens_has_none() -> None:
    """What lists no tokens cannot be counted so."""
    raw = tiny(**{"tokenizer.ggml.tokens": Typed("u32", 7)})
    with pytest.raises(RoostError) as refused:
        vocabulary_file(raw, read_header(raw))
    assert refused.value.failure.reason == "bad_request"
