"""Settings become options of runtimes; files that they name are there, and known by content."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from roost.cli.parts.engines import options_of, own_options, sizes_of
from roost.config.load import Machine, load
from roost.core.engine import Engine, ExtraFile
from roost.core.model import RuntimeOptions
from roost.errors import RoostError
from roost.store.models.inspection import Digests, digest


def options(flags: dict[str, str]) -> RuntimeOptions:
    """Give the common options of these flags."""
    return options_of(load({}, flags, "", Machine(8, "/x")).settings)


def test_nothing_said_is_nothing_asked() -> None:
    """The defaults of the settings are those of the engine."""
    assert options({"step_budget_ms": "0"}) == RuntimeOptions(4096, 4, 256, 0, mode="auto")
    assert options({}).engine == Engine(step_budget_ms=300)


def test_settings_are_options(tmp_path: Path) -> None:
    """Each one gets to its place."""
    files = [tmp_path / name for name in ("a.gguf", "b=2.gguf", "p.gguf")]
    for file in files:
        file.write_text(file.name)
    a, b, p = (ExtraFile(str(file), digest(file)) for file in files)
    found = options(
        {
            "threads_batch": "2",
            "ubatch": "32",
            "cache_type_k": "q8_0",
            "mlock": "on",
            "cache_type_v": "bf16",
            "flash_attn": "off",
            "gpu_layers": "7",
            "mmap": "on",
            "step_budget_ms": "50",
            "main_gpu": "0",
            "kv_offload": "off",
            "projector": str(files[2]),
            "adapters": f"{files[0]}=0.25,{files[1]}",
            "llama_args": "--numa,isolate",
            "pooling": "cls",
            "mode": "embed",
        }
    )
    assert found.mode == "embed"
    assert found.engine == Engine(
        threads_batch=2,
        ubatch=32,
        key_type="q8_0",
        value_type="bf16",
        flash_attention="off",
        gpu_layers=7,
        main_gpu=0,
        kv_offload=False,
        mmap="on",
        mlock=True,
        step_budget_ms=50,
        projector=p,
        adapters=(msgspec.structs.replace(a, scale=0.25), b),
        arguments=("--numa", "isolate"),
        pooling="cls",
    )


def test_one_model_may_differ() -> None:
    """The rest is as for all."""
    flags = {"step_budget_ms": "0", "gpu_layers": "3", "model_options": "a.gpu_layers=5,b.mlock=on"}
    found = own_options(load({}, flags, "", Machine(8, "/x")).settings)
    assert found["a"].engine == Engine(gpu_layers=5)
    assert found["b"].engine == Engine(gpu_layers=3, mlock=True)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"projector": "/nowhere/x.gguf"}, "--projector /nowhere/x.gguf: there is no file"),
        ({"adapters": "/nowhere/x.gguf"}, "--adapters /nowhere/x.gguf: there is no file"),
        ({"adapters": "/nowhere/x.gguf=1"}, "--adapters /nowhere/x.gguf: there is no file"),
        ({"adapters": "x.gguf=much"}, "behind = comes a number from -100 to 100"),
        ({"adapters": "x.gguf=nan"}, "behind = comes a number"),
        ({"adapters": "x.gguf=101"}, "behind = comes a number"),
        ({"llama_args": ",".join(["--x"] * 65)}, "at most 64 arguments"),
        ({"llama_args": "x" * 1001}, "of 1000 characters"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(flags: dict[str, str], why: str) -> None:
    """With the setting, before anything is loaded."""
    with pytest.raises(RoostError) as caught:
        options(flags)
    assert caught.value.failure.reason == "bad_request"
    assert why in caught.value.failure.message


def test_sizes_of_vectors_are_said_of_all_or_of_one() -> None:
    """Between spaces or commas; what is no size is refused with what was written."""
    flags = {"vector_sizes": "64", "model_options": "a.vector_sizes=768 256,b.ctx=7"}
    found = sizes_of(load({}, flags, "", Machine(8, "/x")).settings)
    assert found == {"": (64,), "a": (768, 256)}
    file = '[models.c.options]\nvector_sizes = ["768", "256"]'
    assert sizes_of(load({}, {}, file, Machine(8, "/x")).settings) == {"c": (768, 256)}
    for wrong in ("0", "x", "1000001", "-1", "8 x"):
        with pytest.raises(RoostError) as caught:
            sizes_of(load({}, {"vector_sizes": wrong + ","}, "", Machine(8, "/x")).settings)
        assert "whole numbers from 1 to 1000000" in caught.value.failure.message


def test_a_file_that_models_share_is_hashed_once(tmp_path: Path) -> None:
    """By whatever path it is named, while nothing changes it: the counter sees one reading."""
    file, link = tmp_path / "a.gguf", tmp_path / "b.gguf"
    file.write_text("weights")
    link.hardlink_to(file)
    read: list[Path] = []

    def counted(path: Path) -> str:
        read.append(path)
        return digest(path)

    look = Digests(counted).of
    flags = {"adapters": str(file), "model_options": f"a.adapters={file},b.adapters={link}"}
    settings = load({}, flags, "", Machine(8, "/x")).settings
    common, own = options_of(settings, look), own_options(settings, look)
    found = [one.engine.adapters[0].digest for one in (common, own["a"], own["b"])]
    assert found == [digest(file)] * 3
    assert read == [file]
    file.write_text("other weights")
    assert look(file) == digest(file)
    assert read == [file, file]
