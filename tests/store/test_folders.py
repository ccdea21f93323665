"""Folders of safetensors are installed where they lie, and whatever is wrong in them is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.store.home import Home
from roost.store.models import ModelStore

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
