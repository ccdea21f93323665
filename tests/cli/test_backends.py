"""`roost backends`: engines and choices as a person sees them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from roost.cli import main
from roost.cli.verbs import backends
from roost.core.choice import Choice
from roost.errors import RoostError
from tests.store.gguf_writer import tiny


def run(home: Path, *words: str) -> int:
    """Run `roost backends` over a ROOST_HOME of its own."""
    return main.run(["backends", "--home", str(home), *words])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A ROOST_HOME with one small model."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(tiny())
    made = tmp_path / "home"
    assert main.run(["pull", "--home", str(made), f"file:{file}"]) == 0
    return made


def test_the_list_says_what_each_is_good_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ready or not, formats, capabilities; the same as JSON."""
    assert run(tmp_path) == 0
    told = capsys.readouterr().out
    assert "llama_server     ready on " in told
    assert "reads          gguf" in told
    assert run(tmp_path, "--json", "--llama-server", str(tmp_path / "none")) == 0
    rows = {row["trait"]["name"]: row["found"] for row in json.loads(capsys.readouterr().out)}
    assert rows["scripted"]["usable"] is True
    assert rows["llama_server"]["why"].endswith("there is no such program")


def test_a_choice_is_explained(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who runs it, who does not and why, for one model and for all."""
    capsys.readouterr()
    assert run(home, "why") == 0
    told = capsys.readouterr().out
    assert told.startswith("tiny: llama_server, reads gguf and runs here on ")
    assert "  - scripted       does not read gguf, but scripted, broken" in told
    assert run(home, "why", "--json", "tiny", "--backend", "scripted") == 0
    (choice,) = json.loads(capsys.readouterr().out)
    assert (choice["wanted"], choice["chain"]) == ("scripted", ["scripted"])
    assert set(choice) == set(Choice.__struct_fields__)


def test_a_model_without_a_backend_is_a_failure(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """1, with what is in the way."""
    monkeypatch.setitem(sys.modules, "mistralrs", None)
    capsys.readouterr()
    assert run(home, "why", "--llama-server", str(home / "none")) == 1
    told = capsys.readouterr().out
    assert told.startswith("tiny: nobody, llama_server: llama_server names a file, but there is no")


def test_what_is_wrong_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2 for a model and a backend that are not there, and for a model where none belongs."""
    assert run(home, "why", "nobody") == 2
    assert run(home, "why", "--backend", "abacus") == 2
    assert "there are auto, " in capsys.readouterr().err
    for words in (("list", "tiny"), ("install",)):
        with pytest.raises(SystemExit) as ended:
            run(home, *words)
        assert ended.value.code == 2


def test_nothing_installed_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how to begin."""
    assert run(tmp_path, "why") == 0
    assert "roost pull" in capsys.readouterr().out


def test_an_installation_is_a_preview_until_it_is_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there needs nothing; what is missing is a command with its size, and not yet done."""
    assert run(tmp_path, "install", "scripted") == 0
    assert capsys.readouterr().out == "scripted is usable already\n"
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    code = run(tmp_path, "install", "llama_server")
    told = capsys.readouterr()
    # A copy of roost that nobody has installed cannot add anything to itself; it says what to type.
    assert "pip install" in (told.out if code == 0 else told.err)
    assert run(tmp_path, "install", "llama_server", "--execute", "--offline") == 2


def test_what_cannot_be_installed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 for a backend that there is not, and for one that no package would help."""
    assert run(tmp_path, "install", "nothing") == 2
    assert "there are " in capsys.readouterr().err
    assert run(tmp_path, "install", "llama_server", "--llama-server", str(tmp_path / "x")) == 2
    assert "there is no such program" in capsys.readouterr().err


def test_an_installer_that_fails_is_a_failure(tmp_path: Path) -> None:
    """Its exit code becomes 1, and its absence is said."""
    assert backends.run([sys.executable, "-c", ""]) == 0
    assert backends.run([sys.executable, "-c", "raise SystemExit(7)"]) == 1
    with pytest.raises(RoostError, match="No such file"):
        backends.run([str(tmp_path / "none")])
