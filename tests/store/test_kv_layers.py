"""The layers that keep KV, read from headers: plain ones, windows, shared and unknown ones."""

from __future__ import annotations

import pytest

from roost.core.kv import KvLayers, KvShape
from roost.store.models.kv_layers import read_kv_shape
from roost.text.gguf import read_header
from tests.store.gguf_writer import Gguf, Typed

UNKNOWN = None


def shape(architecture: str, **numbers: Typed | int) -> KvShape | None:
    """Read the shape of a header with these keys; `__` stands for a dot."""
    pairs = {"general.architecture": Typed("str", architecture)}
    for key, number in numbers.items():
        typed = Typed("u32", number) if isinstance(number, int) else number
        pairs[f"{architecture}.{key.replace('__', '.')}"] = typed
    data = Gguf(pairs).build()
    return read_kv_shape(data, read_header(data))


def layered(architecture: str, count: int, **more: Typed | int) -> KvShape | None:
    """Read a model of so many layers, 4 heads of 16 and 2 KV heads."""
    usual: dict[str, Typed | int] = {
        "block_count": count,
        "embedding_length": 64,
        "attention__head_count": 4,
        "attention__head_count_kv": 2,
    }
    return shape(architecture, **(usual | more))


def windows(found: KvShape | None) -> list[int]:
    """Give each layer's window."""
    assert found is not None
    return [layers.window for layers in found.layers for _ in range(layers.count)]


def test_smollm2() -> None:
    """A plain model: 30 layers with 3 KV heads of 576 / 9 numbers."""
    found = layered(
        "llama",
        30,
        embedding_length=576,
        attention__head_count=9,
        attention__head_count_kv=3,
    )
    assert found == KvShape((KvLayers(30, 192, 192),))


def test_head_sizes_that_are_stated_win() -> None:
    """Keys and values may be wider than the embedding is divided, and differ."""
    found = layered("qwen3", 2, attention__key_length=128, attention__value_length=96)
    assert found == KvShape((KvLayers(2, 256, 192),))


def test_without_kv_heads_every_head_has_its_own() -> None:
    """What predates grouped heads keeps them all."""
    found = shape("gpt2", block_count=1, embedding_length=64, attention__head_count=4)
    assert found == KvShape((KvLayers(1, 64, 64),))


def test_kv_heads_may_differ_by_layer() -> None:
    """Lists are read layer by layer; layers without heads keep nothing."""
    found = layered("deci", 4, attention__head_count_kv=Typed("u32[]", [2, 2, 0, 1]))
    assert found == KvShape((KvLayers(2, 32, 32), KvLayers(1, 16, 16)))


def test_gemma3_has_five_windows_to_one_full_layer() -> None:
    """The published figures of Gemma 3 270M: 18 layers, one KV head of 256, windows of 512."""
    found = layered(
        "gemma3",
        18,
        embedding_length=640,
        attention__head_count=4,
        attention__head_count_kv=1,
        attention__key_length=256,
        attention__value_length=256,
        attention__sliding_window=512,
    )
    assert found == KvShape((KvLayers(5, 256, 256, 512), KvLayers(1, 256, 256)) * 3)


def test_gemma3n_shares_its_last_layers() -> None:
    """30 layers of Gemma 3n E2B, the last 10 of which look at the KV of others."""
    pattern = Typed("bool[]", [layer % 5 < 4 for layer in range(30)])
    found = layered(
        "gemma3n",
        30,
        attention__sliding_window=512,
        attention__sliding_window_pattern=pattern,
        attention__shared_kv_layers=10,
    )
    assert windows(found) == [512, 512, 512, 512, 0] * 4
    unsaid = layered("gemma3n", 35, attention__sliding_window=512)
    assert windows(unsaid) == [512, 512, 512, 512, 0] * 4


def test_periods_of_the_families() -> None:
    """Every family has its own rhythm, and a stated one wins."""
    assert windows(layered("gemma2", 4)) == [4096, 0, 4096, 0]
    assert windows(layered("cohere2", 4, attention__sliding_window=9)) == [9, 9, 9, 0]
    assert windows(layered("gpt-oss", 2, attention__sliding_window=128)) == [128, 0]
    stated = {"attention__sliding_window": 9, "attention__sliding_window_pattern": 2}
    assert windows(layered("gemma3", 4, **stated)) == [9, 0, 9, 0]
    assert windows(layered("gemma3", 6)) == [0] * 6


@pytest.mark.parametrize("architecture", ["deepseek2", "mamba", "qwen3next", "", "unheard-of"])
def test_unknown_architectures_are_not_guessed(architecture: str) -> None:
    """Compressed and recurrent states follow other formulas."""
    assert layered(architecture, 4) is UNKNOWN


@pytest.mark.parametrize(
    "wrong",
    [
        {"block_count": 0},
        {"block_count": 10**6},
        {"attention__head_count": 0},
        {"attention__head_count": Typed("str", "four")},
        {"attention__head_count_kv": Typed("u32[]", [2])},
        {"attention__head_count_kv": Typed("f32[]", [2.0, float("nan")])},
        {"attention__head_count_kv": Typed("str[]", ["2", "2"])},
        {"attention__head_count_kv": Typed("str", "two")},
        {"embedding_length": 0},
    ],
)
def test_files_that_do_not_say_enough_are_unknown(wrong: dict[str, Typed | int]) -> None:
    """Whatever is missing or absurd makes the whole unknown, and nothing raises."""
    assert layered("llama", 2, **wrong) is UNKNOWN
