"""Tests of model ids: how they are derived, and what never becomes one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.store.models.naming import candidate_ids, is_model_id

DIGEST = "sha256:0123456789abcdef"


@pytest.mark.parametrize(
    ("file_name", "expected"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct"),
        ("gemma-3-270m-q4_k_m.gguf", "gemma-3-270m"),
        ("Qwen2.5-0.5B-Instruct-UD-Q4_K_XL.gguf", "qwen2.5-0.5b-instruct"),
        ("gpt-oss-20b-MXFP4.gguf", "gpt-oss-20b"),
        ("m-IQ2_XXS.gguf", "m"),
        ("m.TQ1_0.GGUF", "m"),
        ("m-BF16.gguf", "m"),
        ("m_f16", "m"),
        ("phi-3 mini (4k).gguf", "phi-3-mini-4k"),
        ("Größe ünï.gguf", "groe-uni"),
        ("模型.gguf", "own-name"),
        ("../../etc/passwd", "etc-passwd"),
        ("...", "own-name"),
        ("Q4_0.gguf", "q4_0"),
    ],
)
def test_id_of_a_file(file_name: str, expected: str) -> None:
    """The id is the file's name in plain letters without its quantisation."""
    assert candidate_ids(file_name, "Own Name", DIGEST)[0] == expected


def test_candidates_tell_quantisations_and_contents_apart() -> None:
    """If the short id is taken, the quantisation is added, and at last part of the digest."""
    assert candidate_ids("Tiny.Q4_1.gguf", "", DIGEST) == (
        "tiny",
        "tiny.q4_1",
        "tiny-0123456789ab",
    )


def test_a_model_without_any_name_is_named_by_its_digest() -> None:
    """Where nothing plain is left of either name, the digest makes the id."""
    assert candidate_ids("模型.gguf", "模型", DIGEST) == ("model-0123456789ab",)


@given(st.text(max_size=400), st.text(max_size=400))
def test_every_candidate_is_an_id(file_name: str, general_name: str) -> None:
    """Whatever a file or a model is called, its ids are ids, and the last has the digest in it."""
    candidates = candidate_ids(file_name, general_name, DIGEST)
    assert all(is_model_id(candidate) for candidate in candidates)
    assert candidates[-1].endswith("-0123456789ab")


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a/b", "A", "a b", "a\n", "-a", "a-", "ä", "a" * 97, "a\0", "%2e"]
)
def test_what_is_no_id(text: str) -> None:
    """Capital letters, separators, dots alone and long texts are no ids."""
    assert not is_model_id(text)
