"""DECIDER: what roost needs to know of a model, derived from its checked GGUF header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from roost.core.kv import KvShape
from roost.core.model import Widths
from roost.errors import RoostError, fail
from roost.store.models.kv_layers import read_kv_shape
from roost.text import ggml
from roost.text.byte_letters import BYTE_OF
from roost.text.gguf import ArrayRef, Header, Value, read_numbers, read_strings

if TYPE_CHECKING:
    from roost.text.gguf import Buffer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5

RANK_POOLING = 4

# The runtime adds BOS for these without being told; a key in the file overrides it.
_BOS_MODELS = frozenset({"llama", "bert"})
_BOS_PRETOKENIZERS = frozenset(
    {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "tekken", "chameleon"}
)
# Only here is every byte of text inside some token's own bytes; the others fold, drop or normalise
# text, so a bound on tokens per byte would be a guess.
_COUNTABLE = frozenset({"gpt2", "llama"})


class Facts(msgspec.Struct, frozen=True):
    """Facts of a model as its file states them; fields mean what they mean in `Manifest`."""

    name: str = ""
    format: str = "gguf"
    licence: str = ""
    architecture: str = ""
    ctx_train: int = 0
    vocab_size: int = 0
    chat_template: str | None = None
    bos: str = ""
    eos: str = ""
    add_bos: bool = False
    control_tokens: tuple[str, ...] = ()
    max_token_bytes: int = 0
    kv: KvShape | None = None
    tasks: tuple[str, ...] = ()
    weight_bytes: int = 0
    widths: Widths | None = None
    remote: bool = False
    vector_sizes: tuple[int, ...] = ()


def read_facts(buffer: Buffer, header: Header) -> Facts:
    """Derive a model's facts from `header`, which `read_header` made from this very `buffer`.

    Raises `bad_request` for a file that is no language model, or whose token tables disagree.
    """
    meta = header.metadata
    architecture = _string(meta, "general.architecture")
    if not architecture:
        raise fail("bad_request", "The GGUF file does not say which architecture its model has.")
    tokens, types = _token_tables(buffer, meta)
    vocab = _string(meta, "tokenizer.ggml.model")
    return Facts(
        name=_string(meta, "general.name"),
        licence=_string(meta, "general.license"),
        architecture=architecture,
        ctx_train=_integer(meta, f"{architecture}.context_length"),
        vocab_size=len(tokens) or _integer(meta, f"{architecture}.vocab_size"),
        chat_template=_string(meta, "tokenizer.chat_template") or None,
        bos=_special(meta, tokens, "bos", 1),
        eos=_special(meta, tokens, "eos", 2),
        add_bos=_adds_bos(meta),
        control_tokens=_control_tokens(tokens, types),
        max_token_bytes=_longest(tokens, types, vocab) if vocab in _COUNTABLE else 0,
        kv=read_kv_shape(buffer, header),
        tasks=_tasks(meta, architecture),
        weight_bytes=header.data_bytes,
        widths=_widths(meta, architecture),
        vector_sizes=_vector_sizes(meta, architecture),
    )


def _vector_sizes(meta: dict[str, Value], architecture: str) -> tuple[int, ...]:
    """Say how many numbers a vector has; the format has no word for shorter ones."""
    out = _integer(meta, f"{architecture}.embedding_length_out")
    size = out or _integer(meta, f"{architecture}.embedding_length")
    return (size,) if size else ()


def _widths(meta: dict[str, Value], architecture: str) -> Widths | None:
    """Read both widths; None where they differ between layers, or experts share the work."""
    embedding = _integer(meta, f"{architecture}.embedding_length")
    feed_forward = _integer(meta, f"{architecture}.feed_forward_length")
    if not embedding or not feed_forward or f"{architecture}.expert_count" in meta:
        return None
    return Widths(embedding, feed_forward)


def _tasks(meta: dict[str, Value], architecture: str) -> tuple[str, ...]:
    """Say what a model is for: what it pools into one vector or score writes no text."""
    pooling = _integer(meta, f"{architecture}.pooling_type")
    if pooling == RANK_POOLING:
        return ("rerank",)
    if pooling or "bert" in architecture:
        return ("embeddings",)
    return ("chat", "completion") if _string(meta, "tokenizer.chat_template") else ("completion",)


def _string(meta: dict[str, Value], key: str) -> str:
    value = meta.get(key)
    return value if isinstance(value, str) else ""


def _integer(meta: dict[str, Value], key: str) -> int:
    value = meta.get(key)
    return value if type(value) is int and 0 < value < 2**31 else 0


def _disagree(what: str) -> RoostError:
    return fail("bad_request", f"The GGUF file is corrupt: {what}. Download it again.")


def _token_tables(
    buffer: Buffer, meta: dict[str, Value]
) -> tuple[list[bytes], Sequence[int | float | bool]]:
    """Read token texts and types; lengths must agree, for native code indexes one by the other."""
    listed = meta.get("tokenizer.ggml.tokens")
    count = listed.count if isinstance(listed, ArrayRef) else 0
    for key, kinds in (
        ("tokenizer.ggml.scores", (ggml.FLOAT32,)),
        ("tokenizer.ggml.token_type", (ggml.INT32, ggml.UINT32)),
    ):
        table = meta.get(key)
        if table is None:
            continue
        if not isinstance(table, ArrayRef) or table.kind not in kinds or table.count != count:
            raise _disagree("its token tables differ in length or type")
    if listed is None:
        return [], ()
    if not isinstance(listed, ArrayRef) or listed.kind != ggml.STRING:
        raise _disagree("its token table is not a list of texts")
    types = meta.get("tokenizer.ggml.token_type")
    tokens = list(read_strings(buffer, listed))
    if not isinstance(types, ArrayRef):
        return tokens, (NORMAL,) * count
    return tokens, read_numbers(buffer, types)


def _special(meta: dict[str, Value], tokens: list[bytes], name: str, default: int) -> str:
    key = f"tokenizer.ggml.{name}_token_id"
    index: Value | None = meta.get(key)
    if index is None and _string(meta, "tokenizer.ggml.model") == "llama":
        index = default
    if type(index) is not int or not 0 <= index < len(tokens):
        return ""
    return tokens[index].decode("utf-8", "replace")


def _adds_bos(meta: dict[str, Value]) -> bool:
    stated = meta.get("tokenizer.ggml.add_bos_token")
    if isinstance(stated, bool):
        return stated
    if _string(meta, "tokenizer.ggml.model") in _BOS_MODELS:
        return True
    return _string(meta, "tokenizer.ggml.pre") in _BOS_PRETOKENIZERS


def _control_tokens(tokens: list[bytes], types: Sequence[int | float | bool]) -> tuple[str, ...]:
    steering = (CONTROL, UNKNOWN)
    texts = (
        token.decode("utf-8", "replace")
        for token, kind in zip(tokens, types, strict=True)
        if kind in steering and token
    )
    return tuple(dict.fromkeys(texts))


def _longest(tokens: list[bytes], types: Sequence[int | float | bool], vocab: str) -> int:
    """Length in bytes of the longest piece of plain text that one token can stand for.

    User-defined and unused tokens count too: plain text can become them.
    """
    plain = (NORMAL, USER_DEFINED, UNUSED)
    best = 0
    for token, kind in zip(tokens, types, strict=True):
        # A token never stands for more bytes than it is written with, so most need no decoding.
        if len(token) <= best or kind not in plain:
            continue
        mapped = vocab == "gpt2" and kind != USER_DEFINED
        best = max(best, _mapped_length(token) if mapped else len(token))
    return best


def _mapped_length(token: bytes) -> int:
    """Bytes behind a token of a byte-level vocabulary, which writes each byte as one character."""
    text = token.decode("utf-8", "replace")
    return sum(1 if char in BYTE_OF else len(char.encode()) for char in text)
