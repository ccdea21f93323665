"""The tokeniser of a GGUF file, as `tokenizer.json` would describe it."""

from __future__ import annotations

import msgspec
import pytest

from roost.backends.hosted.gguf_vocabulary import Vocabulary, vocabulary_of
from roost.text.gguf import read_header
from tests.store.gguf_writer import Typed, tiny

TOKENS = ["<unk>", "<s>", "</s>", "<|eot_id|>", "<tool>", "a", "b", "ab"]
TYPES = [2, 3, 3, 3, 4, 1, 1, 1]


def read(**more: Typed) -> Vocabulary:
    """Read a tiny file with these entries, `_` for the part before a name."""
    told = {
        "tokens": Typed("str[]", TOKENS),
        "token_type": Typed("i32[]", TYPES),
        "merges": Typed("str[]", ["a b"]),
        "pre": Typed("str", "smollm"),
        **more,
    }
    data = tiny(**{f"tokenizer__ggml__{name}": typed for name, typed in told.items()})
    return vocabulary_of(data, read_header(data))


class Added(msgspec.Struct):
    """A token that was added."""

    id: int
    content: str
    special: bool


class Step(msgspec.Struct):
    """A way to cut a text."""

    type: str


class Steps(msgspec.Struct):
    """Several of them."""

    pretokenizers: list[Step]


class Model(msgspec.Struct):
    """How words become tokens."""

    vocab: dict[str, int]
    merges: list[tuple[str, str]]
    ignore_merges: bool


class Described(msgspec.Struct):
    """A `tokenizer.json`, as far as it is looked at here."""

    added_tokens: list[Added]
    pre_tokenizer: Steps
    model: Model


def described(found: Vocabulary) -> Described:
    """Decode what is described."""
    return msgspec.json.decode(found.described, type=Described)


def test_tokens_keep_their_numbers_and_control_tokens_are_special() -> None:
    """A token that a user may write is added too, and is no control token."""
    found = read()
    told = described(found)
    assert found.spelt == tuple(TOKENS)
    assert told.model.vocab == {text: at for at, text in enumerate(TOKENS)}
    assert told.model.merges == [("a", "b")]
    added = {one.content: (one.id, one.special) for one in told.added_tokens}
    special = {"<unk>": (0, True), "<s>": (1, True), "</s>": (2, True), "<|eot_id|>": (3, True)}
    assert added == special | {"<tool>": (4, False)}


def test_ends_are_those_that_are_stated_and_those_that_are_known() -> None:
    """An end that is beyond the vocabulary is none."""
    assert read().ends == {2, 3}
    assert read(eos_token_id=Typed("u32", 99)).ends == {3}
    assert read(eot_token_id=Typed("u32", 5)).ends == {2, 3, 5}


@pytest.mark.parametrize(
    ("more", "bos"),
    [
        ({}, ()),
        ({"add_bos_token": Typed("bool", True)}, (1,)),
        ({"pre": Typed("str", "llama-bpe")}, (1,)),
        ({"pre": Typed("str", "llama-bpe"), "add_bos_token": Typed("bool", False)}, ()),
        ({"add_bos_token": Typed("bool", True), "bos_token_id": Typed("u32", 99)}, ()),
    ],
)
def test_a_prompt_begins_as_the_file_says(more: dict[str, Typed], bos: tuple[int, ...]) -> None:
    """Or as its kind does, where it says nothing."""
    assert read(**more).bos == bos


@pytest.mark.parametrize(
    ("pre", "steps", "whole"),
    [
        ("gpt-2", ["ByteLevel"], False),
        ("smollm", ["Split", "ByteLevel"], False),
        ("qwen2", ["Split", "ByteLevel"], False),
        ("llama-bpe", ["Split", "ByteLevel"], True),
    ],
)
def test_texts_are_cut_as_the_file_says(pre: str, steps: list[str], *, whole: bool) -> None:
    """How exactly is compared with another engine's tokens where engines are tested."""
    told = described(read(pre=Typed("str", pre)))
    assert [one.type for one in told.pre_tokenizer.pretokenizers] == steps
    assert told.model.ignore_merges is whole


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"model": Typed("str", "llama")}, "kind 'llama'"),
        ({"pre": Typed("str", "of-tomorrow")}, "'of-tomorrow', which is not known"),
        ({"merges": Typed("u32", 1)}, "lacks a part"),
        ({"tokens": Typed("str[]", [b"\xff", *TOKENS[1:]])}, "invalid start byte"),
    ],
)
def test_other_vocabularies_are_refused(more: dict[str, Typed], what: str) -> None:
    """Rather than tokenised in a way that the model has not learned."""
    with pytest.raises(ValueError, match=what):
        read(**more)
