"""Folders of safetensors are installed where they lie, and whatever is wrong in them is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.store.home import Home
from roost.store.models.registry import ModelStore

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
}


def shard(data: bytes = b"\0" * 16) -> bytes:
    """Write a shard of one tensor."""
    told = {"__metadata__": {"format": "pt"}, "w": {"data_offsets": [0, len(data)]}}
    head = json.dumps(told).encode()
    return len(head).to_bytes(8, "little") + head + data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder as hubs have them."""
    made = tmp_path / "Smol"
    made.mkdir()
    (made / "config.json").write_text(json.dumps(CONFIG))
    added = [{"id": 1, "content": "<|im_start|>", "special": True}, {"id": 9, "content": "<x>"}]
    (made / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    told = {"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>"}
    (made / "tokenizer_config.json").write_text(json.dumps(told | {"add_bos_token": True}))
    (made / "chat_template.jinja").write_text("{{ messages }}")
    (made / "model-00001-of-00002.safetensors").write_bytes(shard())
    (made / "model-00002-of-00002.safetensors").write_bytes(shard(b"\1" * 8))
    (made / "modeling.py").write_text("raise SystemExit")
    return made


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """Give an empty store."""
    return ModelStore(Home.open(tmp_path / "home"))


def test_a_folder_is_a_model(store: ModelStore, folder: Path) -> None:
    """What it is is read out of its files; all of them are hashed, code is not among them."""
    manifest = store.add_file(folder, link=True)
    assert (manifest.id, manifest.format, manifest.architecture) == ("smol", "safetensors", "llama")
    assert (manifest.ctx_train, manifest.vocab_size, manifest.weight_bytes) == (8192, 49152, 24)
    assert (manifest.bos, manifest.eos, manifest.add_bos) == ("<|im_start|>", "<|im_end|>", True)
    assert manifest.control_tokens == ("<|im_start|>",)
    assert manifest.chat_template == "{{ messages }}"
    assert manifest.tasks == ("chat", "completion")
    names = {Path(file.path).name for file in manifest.files}
    assert names == {path.name for path in folder.iterdir()} - {"modeling.py"}
    assert Path(manifest.path) == folder / "config.json"
    assert store.list() == (manifest,)


def test_a_folder_stays_where_it_is(store: ModelStore, folder: Path) -> None:
    """A copy of it is not offered; removing the model removes none of its files."""
    with pytest.raises(RoostError, match="--link"):
        store.add_file(folder, link=False)
    store.add_file(folder, link=True)
    store.remove("smol")
    assert (folder / "config.json").exists()


def test_a_template_may_be_in_the_settings(store: ModelStore, folder: Path) -> None:
    """Without one anywhere the model is for completions."""
    (folder / "chat_template.jinja").unlink()
    assert store.add_file(folder, link=True).tasks == ("completion",)
    (folder / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    assert store.get("smol").chat_template == "x"


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda f: (f / "config.json").write_text("{"), "config.json cannot be read"),
        (lambda f: (f / "config.json").write_text('{"architectures": ["BertModel"]}'), "BertModel"),
        (lambda f: (f / "config.json").write_text("{}"), "it says: none"),
        (lambda f: [p.unlink() for p in f.glob("*.safetensors")], "no weights"),
        (
            lambda f: (f / "model-00001-of-00002.safetensors").unlink(),
            r"1 of its 2 parts cannot be found: model-00001-of-00002\.safetensors",
        ),
        (lambda f: (f / "model-00002-of-00002.safetensors").write_bytes(b"x"), "no whole file"),
        (
            lambda f: (f / "model-00002-of-00002.safetensors").write_bytes(shard()[:-1]),
            "Download it again",
        ),
        (lambda f: (f / "tokenizer.json").write_text("[]"), "tokenizer.json cannot be read"),
    ],
)
def test_what_is_wrong_in_a_folder_is_said(
    store: ModelStore, folder: Path, spoil: Callable[[Path], object], what: str
) -> None:
    """By the name of the file, and with what to do."""
    spoil(folder)
    with pytest.raises(RoostError, match=what) as caught:
        store.add_file(folder, link=True)
    assert caught.value.failure.reason == "bad_request"


GENAI = {
    "model": {
        "type": "llama",
        "context_length": 8192,
        "vocab_size": 49152,
        "decoder": {"filename": "model.onnx"},
    }
}


@pytest.fixture
def genai(folder: Path) -> Path:
    """Give a folder for ONNX GenAI, as its builder and as others write it."""
    for path in folder.glob("*.safetensors"):
        path.unlink()
    (folder / "genai_config.json").write_text(json.dumps(GENAI))
    (folder / "model.onnx").write_bytes(b"graph")
    (folder / "model.onnx.data").write_bytes(b"weights")
    (folder / "embed.onnx_data").write_bytes(b"more")
    return folder


def test_a_folder_for_onnx_is_a_model(store: ModelStore, genai: Path) -> None:
    """Its own config is what counts, beside a config.json as well; every weight is hashed."""
    manifest = store.add_file(genai, link=True)
    assert (manifest.format, manifest.architecture, manifest.ctx_train) == ("onnx", "llama", 8192)
    assert (manifest.vocab_size, manifest.weight_bytes) == (49152, 16)
    assert (manifest.chat_template, manifest.bos) == ("{{ messages }}", "<|im_start|>")
    assert Path(manifest.path) == genai / "genai_config.json"
    names = {Path(file.path).name for file in manifest.files}
    assert names >= {"model.onnx", "model.onnx.data", "embed.onnx_data", "tokenizer.json"}
    assert not names & {"config.json", "modeling.py"}
    with pytest.raises(RoostError, match="--link"):
        store.add_file(genai, link=False, into="other")


@pytest.mark.parametrize(
    ("told", "what"),
    [
        ("[]", "genai_config.json cannot be read"),
        ("{}", "it says: nothing"),
        ('{"model": {"type": "whisper", "encoder": {}, "decoder": {}}}', "whisper"),
        ('{"model": {"type": "phi3v", "vision": {"f": 1}, "decoder": {}}}', "phi3v"),
        ('{"model": {"decoder": {"filename": "other.onnx"}}}', "names other.onnx"),
    ],
)
def test_what_is_wrong_in_a_folder_for_onnx_is_said(
    store: ModelStore, genai: Path, told: str, what: str
) -> None:
    """What is no model that writes text, and what is not there."""
    (genai / "genai_config.json").write_text(told)
    with pytest.raises(RoostError, match=what) as caught:
        store.add_file(genai, link=True)
    assert caught.value.failure.reason == "bad_request"


def test_a_folder_for_onnx_has_weights(store: ModelStore, genai: Path) -> None:
    """A graph, at least."""
    (genai / "model.onnx").unlink()
    with pytest.raises(RoostError, match="no weights"):
        store.add_file(genai, link=True)


def test_a_folder_for_vectors_says_how_they_are_made(store: ModelStore, folder: Path) -> None:
    """It writes no text, has sizes, and as much context as its makers used."""
    told = {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 384}
    more = {"vocab_size": 30522, "max_position_embeddings": 512, "matryoshka_dimensions": [64, 999]}
    (folder / "config.json").write_text(json.dumps(told | more))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 256}))
    parts = [("", "Transformer"), ("1_Pooling", "Pooling"), ("../out", "Normalize")]
    modules = [
        {"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in parts
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    (folder.parent / "out").mkdir()
    (folder.parent / "out" / "config.json").write_text("{}")
    manifest = store.add_file(folder, link=True)
    assert (manifest.tasks, manifest.vector_sizes) == (("embeddings",), (384, 64))
    assert (manifest.ctx_train, manifest.architecture) == (256, "bert")
    files = {Path(file.path).relative_to(folder) for file in manifest.files}
    assert Path("1_Pooling/config.json") in files
    assert Path("config.json") in files
    (folder / "modules.json").write_text("{")
    store.remove("smol")
    with pytest.raises(RoostError, match=r"modules\.json cannot be read"):
        store.add_file(folder, link=True)
