"""DECIDER: the vocabulary of a GGUF file, and the tokeniser that it describes as `tokenizer.json`.

Such a file names the way in which a text is cut before it becomes tokens. Ways that are not known
here are refused: a text that is cut otherwise becomes tokens that the model has not learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from roost.text.gguf import ArrayRef, Header, Value, read_numbers, read_strings

if TYPE_CHECKING:
    from roost.text.gguf import Buffer

_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_WHOLE = _BYTES | {"use_regex": False}
_WORDS = _BYTES | {"use_regex": True}
_CONTRACTIONS = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _cut(digits: str) -> dict[str, object]:
    regex = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}|{_REST}"
    pattern = {"Regex": regex}
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


_DIGITS = {"type": "Split", "pattern": {"Regex": r"\p{N}"}, "behavior": "Isolated", "invert": False}
_CUTS: dict[str, tuple[Mapping[str, object], ...]] = {
    **dict.fromkeys(("gpt-2", "phi-2"), (_WORDS,)),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r"), (_DIGITS, _WORDS)),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3"), (_cut(r"\p{N}{1,3}"), _WHOLE)),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen"), (_cut(r"\p{N}"), _WHOLE)),
}
_LLAMA3 = frozenset({"llama3", "llama-v3", "llama-bpe", "falcon3"})
"""Here a word that is a token is that token, whatever else it could be put together of, and a
prompt begins with BOS unless the file says otherwise."""

_ENDS = frozenset(
    {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>"}
)
"""Control tokens that end an answer though a file may not say so."""


class Vocabulary(NamedTuple):
    """A model's tokens as the file spells them, their tokeniser, and what prompts begin with.

    `ends` are the tokens that end an answer.
    """

    spelt: tuple[str, ...]
    described: str
    bos: tuple[int, ...]
    ends: frozenset[int]


def vocabulary_of(buffer: Buffer, header: Header) -> Vocabulary:
    """Read a file's vocabulary; raises `ValueError`, in words for a person, for one not known."""
    meta = header.metadata
    kind, pre = _told(meta, "model"), _told(meta, "pre")
    if kind != "gpt2":
        raise ValueError(f"The file's vocabulary is of the kind {kind!r}, and not 'gpt2'.")
    if pre not in _CUTS:
        raise ValueError(f"The file's texts are cut in the way {pre!r}, which is not known here.")
    lists = [meta.get(f"tokenizer.ggml.{name}") for name in ("tokens", "token_type", "merges")]
    tokens, types, merges = lists
    if not all(isinstance(one, ArrayRef) for one in lists):
        raise ValueError("The file lacks a part of its vocabulary.")
    assert isinstance(tokens, ArrayRef)
    assert isinstance(types, ArrayRef)
    assert isinstance(merges, ArrayRef)
    # Texts that are no UTF-8 raise `UnicodeDecodeError`, which is a `ValueError`.
    spelt = tuple(raw.decode() for raw in read_strings(buffer, tokens))
    kinds = [int(one) for one in read_numbers(buffer, types)]
    pairs = [raw.decode().split(" ", 1) for raw in read_strings(buffer, merges)]
    control = [at for at, one in enumerate(kinds) if one in {_UNKNOWN, _CONTROL}]
    stated = [_number(meta, f"{name}_token_id", len(spelt)) for name in ("eos", "eot", "eom")]
    ends = {*stated, *(at for at in control if spelt[at] in _ENDS)} - {None}
    described = {
        "version": "1.0",
        "added_tokens": [_added(at, spelt[at], special=True) for at in control]
        + [_added(at, spelt[at]) for at, one in enumerate(kinds) if one == _USER_DEFINED],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _CUTS[pre]},
        "decoder": _WORDS,
        "model": {
            "type": "BPE",
            "vocab": {text: at for at, text in enumerate(spelt)},
            "merges": pairs,
            "ignore_merges": pre in _LLAMA3,
        },
    }
    bos = _number(meta, "bos_token_id", len(spelt))
    adds = meta.get("tokenizer.ggml.add_bos_token", pre in _LLAMA3)
    begins = (bos,) if adds is True and bos is not None else ()
    written = msgspec.json.encode(described).decode()
    return Vocabulary(spelt, written, begins, frozenset(one for one in ends if one is not None))


def _told(meta: Mapping[str, Value], name: str) -> str:
    value = meta.get(f"tokenizer.ggml.{name}")
    return value if isinstance(value, str) else ""


def _number(meta: Mapping[str, Value], name: str, below: int) -> int | None:
    value = meta.get(f"tokenizer.ggml.{name}")
    return value if type(value) is int and 0 <= value < below else None


def _added(token: int, text: str, *, special: bool = False) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token, "content": text, "special": special, **flags}
