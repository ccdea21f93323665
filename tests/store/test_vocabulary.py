"""Tests of the facts derived from a model's header."""

from __future__ import annotations

import pytest

from roost.core.model import Widths
from roost.errors import RoostError
from roost.store.models.vocabulary import Facts, read_facts
from roost.text.gguf import read_header
from tests.store.gguf_writer import Gguf, Typed, metadata, tiny


def facts(**more: Typed) -> Facts:
    """Read the facts of a tiny model with some keys changed."""
    raw = tiny(**more)
    return read_facts(raw, read_header(raw))


def without(*keys: str) -> Facts:
    """Read the facts of a tiny model with some keys left out."""
    raw = Gguf({key: pair for key, pair in metadata().items() if key not in keys}).build()
    return read_facts(raw, read_header(raw))


def test_facts_of_a_byte_level_model() -> None:
    """Everything a manifest needs is read from the header alone."""
    assert facts() == Facts(
        name="Tiny Test",
        licence="apache-2.0",
        architecture="llama",
        ctx_train=256,
        vocab_size=9,
        chat_template="{{ messages }}",
        bos="<s>",
        eos="</s>",
        add_bos=False,
        control_tokens=("<unk>", "<s>", "</s>", "<|im_end|>"),
        max_token_bytes=7,
        tasks=("chat", "completion"),
        weight_bytes=read_header(tiny()).data_bytes,
    )


@pytest.mark.parametrize(
    ("token", "kind", "length"),
    [
        ("Ġ" * 40, 1, 40),  # mapped: 40 spaces, though written with 80 bytes
        ("äöü" * 5, 1, 15),  # mapped: Latin-1 letters stand for one byte each
        ("語" * 5, 1, 15),  # outside the map: itself
        ("ä" * 20, 4, 40),  # user-defined tokens are plain text, never mapped
        ("x" * 60, 3, 7),  # control tokens are nothing that text can become
    ],
)
def test_longest_token_counts_bytes_not_characters(token: str, kind: int, length: int) -> None:
    """A byte-level vocabulary writes one byte as one character; user-defined tokens do not."""
    read = facts(
        tokenizer__ggml__tokens=Typed("str[]", [token, "<think>"]),
        tokenizer__ggml__token_type=Typed("i32[]", [kind, 4]),
    )
    assert read.max_token_bytes == length


def test_longest_token_of_a_sentencepiece_model() -> None:
    """There, token texts are plain UTF-8 and add_bos and the special ids have defaults."""
    raw = Gguf(
        {
            "general.architecture": Typed("str", "llama"),
            "tokenizer.ggml.model": Typed("str", "llama"),
            "tokenizer.ggml.tokens": Typed("str[]", ["<unk>", "<s>", "</s>", "\u2581\u2581hi"]),
            "tokenizer.ggml.token_type": Typed("i32[]", [2, 3, 3, 1]),
        }
    ).build()
    read = read_facts(raw, read_header(raw))
    assert (read.bos, read.eos, read.add_bos, read.max_token_bytes) == ("<s>", "</s>", True, 8)


def test_tokenizers_that_fold_text_have_no_bound() -> None:
    """Where one token can stand for any amount of text, no bound is claimed."""
    assert facts(tokenizer__ggml__model=Typed("str", "bert")).max_token_bytes == 0


def test_add_bos_is_stated_or_known_by_family() -> None:
    """The file's own word comes first; some families add BOS unless told otherwise."""
    assert facts(tokenizer__ggml__pre=Typed("str", "llama-bpe")).add_bos
    stated = Typed("bool", value=False)
    assert not facts(
        tokenizer__ggml__pre=Typed("str", "llama-bpe"), tokenizer__ggml__add_bos_token=stated
    ).add_bos


def test_a_base_model_has_no_template() -> None:
    """Without a template, or with an empty one, there is None: nothing is guessed."""
    assert without("tokenizer.chat_template").chat_template is None
    assert facts(tokenizer__chat_template=Typed("str", "")).chat_template is None


def test_without_types_every_token_is_plain() -> None:
    """A vocabulary without token types has no control tokens."""
    read = without("tokenizer.ggml.token_type")
    assert read.control_tokens == ()
    assert read.vocab_size == 9


def test_without_a_vocabulary_its_size_may_be_stated() -> None:
    """A model without tokens may state how many there are; special tokens are then unknown."""
    read = without("tokenizer.ggml.tokens", "tokenizer.ggml.token_type")
    assert (read.vocab_size, read.bos, read.max_token_bytes) == (0, "", 0)


def test_special_ids_outside_the_vocabulary_are_none() -> None:
    """An id that names no token yields no text."""
    assert facts(tokenizer__ggml__bos_token_id=Typed("u32", 9)).bos == ""
    assert facts(tokenizer__ggml__bos_token_id=Typed("i32", -1)).bos == ""
    assert facts(tokenizer__ggml__bos_token_id=Typed("str", "1")).bos == ""


def test_absurd_numbers_are_unknown_ones() -> None:
    """A context length that no runtime could hold is treated as not stated."""
    assert facts(llama__context_length=Typed("u64", 2**63)).ctx_train == 0
    assert facts(llama__context_length=Typed("bool", value=True)).ctx_train == 0


@pytest.mark.parametrize(
    ("key", "typed"),
    [
        ("tokenizer.ggml.token_type", Typed("i32[]", [1])),
        ("tokenizer.ggml.token_type", Typed("f32[]", [1.0] * 9)),
        ("tokenizer.ggml.token_type", Typed("u32", 1)),
        ("tokenizer.ggml.scores", Typed("f32[]", [0.0] * 8)),
        ("tokenizer.ggml.tokens", Typed("i32[]", [1] * 9)),
        ("tokenizer.ggml.tokens", Typed("str", "hello")),
    ],
)
def test_token_tables_that_disagree_are_refused(key: str, typed: Typed) -> None:
    """Native code indexes one table by another's length, so unequal ones must not reach it."""
    raw = Gguf(metadata() | {key: typed}).build()
    with pytest.raises(RoostError) as caught:
        read_facts(raw, read_header(raw))
    assert caught.value.failure.reason == "bad_request"


def test_a_file_without_architecture_is_no_model() -> None:
    """Without an architecture no runtime could load the file."""
    with pytest.raises(RoostError, match="architecture"):
        without("general.architecture")


def test_widths_are_one_pair_of_numbers_or_none() -> None:
    """Where both are said; not where layers differ, experts share the work, or one is missing."""
    both = {
        "llama__embedding_length": Typed("u32", 64),
        "llama__feed_forward_length": Typed("u32", 256),
    }
    assert facts(**both).widths == Widths(64, 256)
    assert facts(**both, llama__expert_count=Typed("u32", 8)).widths is None
    assert facts(**both | {"llama__feed_forward_length": Typed("i32[]", [1, 2])}).widths is None
    assert facts(llama__embedding_length=Typed("u32", 64)).widths is None


@pytest.mark.parametrize(
    ("more", "tasks"),
    [
        ({}, ("chat", "completion")),
        ({"llama__pooling_type": Typed("u32", 0)}, ("chat", "completion")),
        ({"llama__pooling_type": Typed("u32", 1)}, ("embeddings",)),
        ({"llama__pooling_type": Typed("u32", 4)}, ("rerank",)),
        ({"general__architecture": Typed("str", "nomic-bert")}, ("embeddings",)),
        ({"tokenizer__chat_template": Typed("str", "")}, ("completion",)),
    ],
)
def test_what_a_model_is_for(more: dict[str, Typed], tasks: tuple[str, ...]) -> None:
    """Text with or without a template for chats, one vector, or one score."""
    assert facts(**more).tasks == tasks
