"""`roost convert` without the library that converts, and for what it cannot convert."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from roost.cli import main
from roost.store.files import lock_now
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.store.gguf_writer import tiny


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A ROOST_HOME with a small GGUF and a card."""
    root = tmp_path / "home"
    store = ModelStore(Home.open(root))
    (tmp_path / "m.gguf").write_bytes(tiny())
    (tmp_path / "far.toml").write_text('backend = "openai_http"\nurl = "http://x"\nctx = 9')
    for name in ("m.gguf", "far.toml"):
        store.add_file(tmp_path / name, link=True)
    return root


def convert(home: Path, *words: str) -> int:
    """Run the verb over a home."""
    return main.run(["convert", "--home", str(home), *words])


def test_without_the_library_it_says_what_to_type(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And makes no folder."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert convert(home, "m") != 0
    assert "Transformers is not installed. Type: " in capsys.readouterr().err
    assert not (home / "converted").exists()


def test_what_is_no_gguf_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its name."""
    assert convert(home, "far") == 2
    assert "far is no GGUF" in capsys.readouterr().err
    assert convert(home, "nothing") == 2


def test_a_folder_of_somebody_else_is_left_alone(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing in it is overwritten."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    assert convert(home, "m", "--out", str(other)) == 2
    assert "is not as it was made" in capsys.readouterr().err
    assert [path.name for path in other.iterdir()] == ["mine.txt"]


def test_onnx_needs_more_and_says_so_first(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes such models is looked for before anything is made on the way to them."""
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    assert convert(home, "m", "--to", "onnx") == 1
    told = capsys.readouterr().err
    assert "not installed. Type: " in told
    assert "[onnx-convert]'" in told
    assert not (home / "converted").exists()


def test_what_cannot_become_onnx_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its name; and what is asked for of another format."""
    assert convert(home, "far", "--to", "onnx") == 2
    assert "far is neither a GGUF nor a folder of safetensors" in capsys.readouterr().err
    for words in (["--precision", "int4"], ["--for", "cuda"], ["--to", "gguf"]):
        with pytest.raises(SystemExit) as ended:
            convert(home, "m", *words)
        assert ended.value.code == 2


def test_one_conversion_at_a_time(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two would write to one place; the second is told to wait."""
    lock = lock_now(Home.open(home).locks / "convert")
    assert lock is not None
    try:
        assert convert(home, "m") == 2
    finally:
        os.close(lock)
    assert "Another conversion is under way" in capsys.readouterr().err
