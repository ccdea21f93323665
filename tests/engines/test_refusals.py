"""What an engine cannot load it refuses in words, and without a traceback: no code, no crash."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from roost.core.model import Manifest
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.engines.conftest import ONNX, SAFETENSORS
from tests.engines.subjects import OPTIONS, assert_refused, subject

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]

OWN_CODE = '{"model_type": "nothing", "auto_map": {"AutoConfig": "x.Config"}}'
STRANGE = '{"model_type": "nothing", "vocab_size": 9}'
DEVICES = ("cuda", "mps", "rocm", "dml", "openvino", "qnn", "webgpu")


def model_for(backend: str, home: Path) -> Manifest:
    """Give the folder that this backend reads."""
    return ModelStore(Home.open(home)).get(ONNX if backend == "onnx_genai" else SAFETENSORS)


def spoilt(model: Manifest, folder: Path, name: str, text: str | None) -> Manifest:
    """Give the same model in a folder where one file has this text, or is missing."""
    folder.mkdir()
    for path in Path(model.path).parent.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / name).unlink(missing_ok=True)
    (folder / "x.py").write_text("raise SystemExit(1)")
    if text is not None:
        (folder / name).write_text(text)
    return msgspec.structs.replace(model, path=str(folder / Path(model.path).name))


@pytest.mark.parametrize(
    ("backend", "options", "words"),
    [
        ("transformers", {"device": "cuda"}, "There is no cuda device for torch here"),
        ("candle", {"device": "cuda"}, "There is no cuda device for Candle here"),
        ("candle", {"dtype": "float64"}, "Candle computes in bfloat16, float16, float32"),
        ("mlx", {"device": "cuda"}, "There is no cuda device for MLX here"),
        ("mlx", {"dtype": "float64"}, "MLX computes in bfloat16, float16, float32"),
        # A provider is an option; the build for processors has no other, and says so.
        *(("onnx_genai", {"device": one}, f"on {one}; .* another --device") for one in DEVICES),
    ],
)
async def test_what_it_cannot_do_is_told(
    backend: str, options: dict[str, str], words: str, home: Path, tmp_path: Path
) -> None:
    """A load that cannot be says what to set."""
    wanted = msgspec.structs.replace(OPTIONS, **options)
    await assert_refused(subject(backend, model_for(backend, home), tmp_path, wanted), words)


@pytest.mark.parametrize(
    ("backend", "name", "text", "words"),
    [
        ("transformers", "config.json", "{", "cannot load this folder"),
        ("transformers", "config.json", STRANGE, "cannot load this folder"),
        ("transformers", "config.json", OWN_CODE, "cannot load this folder"),
        ("transformers", "tokenizer.json", None, "cannot load this folder"),
        ("transformers", "tokenizer.json", "{}", "cannot load this folder"),
        ("transformers", "model.safetensors", "no weights", "the log says more"),
        ("transformers", "model.safetensors", None, "cannot load this folder"),
        ("candle", "config.json", "{", "config.json cannot be read"),
        ("candle", "config.json", STRANGE, "cannot load this model"),
        ("candle", "tokenizer.json", None, "no tokenizer.json"),
        ("candle", "model.safetensors", "no weights", "cannot load this model"),
        ("mlx", "config.json", "{", "cannot load this folder"),
        (
            *("mlx", "config.json", '{"model_type": "llama", "model_file": "x.py"}'),
            "cannot load this folder",
        ),
        ("mlx", "tokenizer.json", None, "no tokenizer.json"),
        ("mlx", "generation_config.json", "[", "generation_config.json cannot be read"),
        ("onnx_genai", "genai_config.json", "{", "genai_config.json cannot be read"),
        (
            *("onnx_genai", "genai_config.json", '{"model": {"type": "llama"}}'),
            "genai_config.json cannot be read",
        ),
        ("onnx_genai", "model.onnx", "no graph", "cannot load this folder"),
        ("onnx_genai", "tokenizer.json", None, "no tokenizer.json"),
        ("onnx_genai", "tokenizer.json", "{}", "tokeniser is none"),
    ],
)
async def test_a_folder_that_is_spoilt_is_told(
    *, backend: str, name: str, text: str | None, words: str, home: Path, tmp_path: Path
) -> None:
    """Each file in turn, missing or with this text; code that lies beside it is never run."""
    model = spoilt(model_for(backend, home), tmp_path / "spoilt", name, text)
    await assert_refused(subject(backend, model, tmp_path), words)


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("transformers", "lacks 9 of the model's weights"),
        ("candle", "cannot load this model"),
        ("mlx", "cannot load this folder"),
    ],
)
async def test_a_model_without_all_its_weights_is_told(
    backend: str, words: str, home: Path, tmp_path: Path
) -> None:
    """None are made up in their place: one layer is asked for that the file does not have."""
    model = model_for(backend, home)
    config = json.loads(Path(model.path).with_name("config.json").read_text())
    config["num_hidden_layers"] += 1
    model = spoilt(model, tmp_path / "spoilt", "config.json", json.dumps(config))
    await assert_refused(subject(backend, model, tmp_path), words)
