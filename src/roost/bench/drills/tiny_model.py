"""DECIDER: the bytes of a model file that installs like any other and that only `scripted` runs."""

from __future__ import annotations

import struct

NAME = "drill"
CTX = 65_536
_TEMPLATE = "{{ messages }}"
_U32, _I32, _TEXT, _LIST = 4, 5, 8, 9
_TOKENS = ("<s>", "</s>", "hello")
_TYPES = (3, 3, 1)
_ALIGNMENT = 32


def tiny_model() -> bytes:
    """Return a whole GGUF file: a few tokens, a chat template, one small tensor of zeros."""
    pairs = (
        _text_pair("general.architecture", "llama"),
        _text_pair("general.name", NAME),
        _text_pair("tokenizer.ggml.model", "gpt2"),
        _text_pair("tokenizer.chat_template", _TEMPLATE),
        _number_pair("llama.context_length", CTX),
        _number_pair("tokenizer.ggml.bos_token_id", 0),
        _number_pair("tokenizer.ggml.eos_token_id", 1),
        _list_pair("tokenizer.ggml.tokens", _TEXT, [_text(token) for token in _TOKENS]),
        _list_pair("tokenizer.ggml.token_type", _I32, [struct.pack("<i", t) for t in _TYPES]),
    )
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(pairs)) + b"".join(pairs)
    head += _text("output_norm.weight") + struct.pack("<IQIQ", 1, 64, 0, 0)
    return head + b"\0" * (-len(head) % _ALIGNMENT) + b"\0" * (64 * 4)


def _text(words: str) -> bytes:
    raw = words.encode()
    return struct.pack("<Q", len(raw)) + raw


def _text_pair(name: str, words: str) -> bytes:
    return _text(name) + struct.pack("<I", _TEXT) + _text(words)


def _number_pair(name: str, number: int) -> bytes:
    return _text(name) + struct.pack("<II", _U32, number)


def _list_pair(name: str, kind: int, items: list[bytes]) -> bytes:
    return _text(name) + struct.pack("<IIQ", _LIST, kind, len(items)) + b"".join(items)
