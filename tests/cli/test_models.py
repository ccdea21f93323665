"""`roost pull` and `roost models`, as a person types them, over a folder of small model files."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from roost.cli import main
from roost.cli.verbs.estimate import available_bytes
from roost.core.model import RuntimeOptions
from roost.store.calibration import Calibration, Weighed
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.store.gguf_writer import Typed, shards, tiny
from tests.store.hub import Page, running_hub


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one model in two quantisations, and one in two parts."""
    made = tmp_path / "models"
    made.mkdir()
    for kind in ("Q8_0", "Q4_K_M"):
        raw = tiny(general__name=Typed("str", kind))
        (made / f"m-{kind}.gguf").write_bytes(raw)
    for number, raw in enumerate(shards(2), 1):
        (made / f"z-{number:05}-of-00002.gguf").write_bytes(raw)
    return made


def run(home: Path, *words: str) -> int:
    """Run a command line over a ROOST_HOME of its own."""
    return main.run([words[0], "--home", str(home), *words[1:]])


def test_models_from_the_shelf_to_the_bin(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pulled, listed, shown, verified, given another file, and removed."""
    home = tmp_path / "home"
    assert run(home, "pull", "--all", f"file:{folder}") == 0
    told = capsys.readouterr().out
    assert "licence   apache-2.0" in told
    assert "in 2 parts" in told
    assert run(home, "models", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in listed] == ["m", "m-q8_0", "z"]
    assert run(home, "models", "show", "z") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (len(shown["files"]), shown["tasks"]) == (2, ["chat", "completion"])
    assert run(home, "models", "verify") == 0
    assert capsys.readouterr().out == "m: good\nm-q8_0: good\nz: good\n"
    assert run(home, "models", "select-file", "m") == 0
    names = "m-Q4_K_M.gguf\nm-Q8_0.gguf\nz-00001-of-00002.gguf\n"
    assert capsys.readouterr().out == names
    assert run(home, "models", "select-file", "m", "q8_0") == 0
    assert "m-Q8_0.gguf" in capsys.readouterr().out
    assert run(home, "models", "rm", "z") == 0
    assert run(home, "models", "show", "z") == 2


def test_a_name_of_two_lines_stays_in_its_row(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file may be called what it likes: a row is a line, and nothing in it is obeyed."""
    home = tmp_path / "home"
    odd = folder / "ギガ \x1b[2J\n ñ.gguf"
    (folder / "m-Q8_0.gguf").rename(odd)
    (folder / "z-00002-of-00002.gguf").unlink()
    assert run(home, "pull", f"file:{odd}") == 0
    capsys.readouterr()
    assert run(home, "models") == 0
    (row,) = capsys.readouterr().out.splitlines()
    assert row.endswith("/ギガ \ufffd[2J ñ.gguf")
    assert run(home, "models", "select-file", "2j-n") == 0
    lost = "z-00001-of-00002.gguf  (missing: z-00002-of-00002.gguf)"
    assert capsys.readouterr().out.splitlines() == [
        "m-Q4_K_M.gguf",
        "ギガ \ufffd[2J ñ.gguf",
        lost,
    ]


def test_a_damaged_model_is_named_and_the_others_are_read_on(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is not whole makes the exit code 1, and hides no other."""
    home = tmp_path / "home"
    assert run(home, "pull", "--link", "--all", f"file:{folder}") == 0
    path = folder / "m-Q4_K_M.gguf"
    path.write_bytes(path.read_bytes()[:-10])
    capsys.readouterr()
    assert run(home, "models", "verify") == 1
    first, *others = capsys.readouterr().out.splitlines()
    assert "cut short" in first
    assert others == ["m-q8_0: good", "z: good"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pull", "--all", "--file", "x", "file:x"), "--all takes every file"),
        (("models", "show"), "needs the name of a model"),
        (("models", "select-file"), "needs the name of a model"),
    ],
)
def test_command_lines_that_are_none(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong command line ends with 2 and one sentence."""
    with pytest.raises(SystemExit) as ended:
        run(tmp_path, *words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_an_estimate_of_a_file_and_of_an_installed_model(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is known is said in bytes, what is not is null, and nothing is installed by asking."""
    home = tmp_path / "home"
    (tmp_path / "known.gguf").write_bytes(
        tiny(
            llama__block_count=Typed("u32", 2),
            llama__attention__head_count=Typed("u32", 4),
            llama__embedding_length=Typed("u32", 64),
            llama__feed_forward_length=Typed("u32", 128),
        )
    )
    assert run(home, "estimate", "--json", "--slots", "3", str(tmp_path / "known.gguf")) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["plan"]["ctx"], told["plan"]["slots"]) == (256, 3)
    assert told["footprint"]["kv_bytes"] == 3 * 256 * 2 * 2 * 64 * 2
    assert told["footprint"]["total_bytes"] > told["footprint"]["kv_bytes"]
    smaller = ("--cache-type-k", "q8_0", "--slots", "3")
    assert run(home, "estimate", "--json", *smaller, str(tmp_path / "known.gguf")) == 0
    kv_bytes = json.loads(capsys.readouterr().out)["footprint"]["kv_bytes"]
    assert kv_bytes == 3 * 256 * 2 * (64 * 2 + 64 // 32 * 34)
    assert run(home, "pull", f"file:{folder}") == 0
    capsys.readouterr()
    assert run(home, "estimate", "m") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("m: ")
    assert "unknown" in lines[2]
    store = ModelStore(Home.open(home))
    seen = Weighed("x", store.get("m").digest, RuntimeOptions(256, 4), None, 3000, 7)
    Calibration(store.home).note(seen)
    assert run(home, "estimate", "m", "--slots", "4") == 0
    assert "measured       3.0 kB  with all that its process takes; " in capsys.readouterr().out
    assert run(home, "estimate", "m", "--slots", "4", "--json") == 0
    assert json.loads(capsys.readouterr().out)["expected_bytes"] == 3000
    # Nothing is calculated of it, so what it takes with other options is not known.
    assert run(home, "estimate", "m", "--slots", "5", "--json") == 0
    assert json.loads(capsys.readouterr().out)["expected_bytes"] is None
    Calibration(store.home).note(msgspec.structs.replace(seen, measured_bytes=2**50))
    assert run(home, "estimate", "m", "--slots", "4") == 1
    assert "does not fit" in capsys.readouterr().out
    assert run(home, "estimate", "nothing-like-it") == 2


def test_memory_is_read_or_unknown(tmp_path: Path) -> None:
    """A system that does not say how much is free is not guessed at."""
    table = tmp_path / "meminfo"
    assert available_bytes(table) is None
    table.write_text("MemTotal: 9 kB\nMemAvailable:      12 kB\n")
    assert available_bytes(table) == 12 * 1024
    table.write_text("MemTotal: 9 kB\n")
    assert available_bytes(table) is None


def test_an_estimate_before_anything_is_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model of the hub is judged by its header, and not installed by that."""
    home = tmp_path / "home"
    with running_hub() as hub:
        hub.pages["/o/r/resolve/main/m.gguf"] = Page(tiny())
        words = ("estimate", "hf:o/r/m.gguf", "--json", "--hub-endpoint", hub.url)
        assert run(home, *words) == 0
    assert json.loads(capsys.readouterr().out)["footprint"]["weights_bytes"] > 0
    assert run(home, "models", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
