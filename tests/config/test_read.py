"""The one place that looks at the environment, the machine and the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from roost.config.read import read, read_environment
from roost.errors import RoostError


def test_file_in_home_is_read(tmp_path: Path) -> None:
    """The file lies in the home that the flags name."""
    (tmp_path / "roost.toml").write_text("port = 4321\n")
    loaded = read({"home": str(tmp_path)})
    assert (loaded.settings.port, loaded.settings.home) == (4321, str(tmp_path))


def test_environment_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables count, and the home they name is where the file is looked for."""
    (tmp_path / "roost.toml").write_text("port = 4321\nslots = 3\n")
    monkeypatch.setenv("ROOST_HOME", str(tmp_path))
    monkeypatch.setenv("ROOST_PORT", "1234")
    settings = read({}).settings
    assert (settings.home, settings.port, settings.slots) == (str(tmp_path), 1234, 3)


def test_named_file_replaces_the_one_in_home(tmp_path: Path) -> None:
    """A file named by --config is read in place of the other."""
    (tmp_path / "roost.toml").write_text("port = 1\n")
    (tmp_path / "other.toml").write_text("port = 2\n")
    flags = {"home": str(tmp_path), "config": str(tmp_path / "other.toml")}
    assert read(flags).settings.port == 2


def test_no_file_is_fine_unless_it_was_named(tmp_path: Path) -> None:
    """A missing file matters only to somebody who asked for it."""
    assert read({"home": str(tmp_path)}).settings.port == 7878
    with pytest.raises(RoostError, match="does not exist") as caught:
        read({"home": str(tmp_path), "config": str(tmp_path / "none.toml")})
    assert str(tmp_path) not in caught.value.failure.message


def test_unreadable_file_is_told(tmp_path: Path) -> None:
    """A folder or bytes that are no text in the file's place are a clear refusal."""
    (tmp_path / "roost.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RoostError, match=r"roost.toml cannot be read \(UnicodeDecodeError\)"):
        read({"home": str(tmp_path)})
    with pytest.raises(RoostError, match=r"cannot be read \(IsADirectoryError\)"):
        read({"config": str(tmp_path)})


def test_home_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative home is resolved once, so that changing the folder later changes nothing."""
    monkeypatch.chdir(tmp_path)
    assert read({"home": "here"}).settings.home == str(tmp_path / "here")
    assert Path(read({"home": "~/roost"}).settings.home).is_relative_to(Path.home())


def test_environment_is_a_copy() -> None:
    """Changing the copy for a child leaves this process alone."""
    copied = read_environment()
    copied["ROOST_TEST_ONLY"] = "1"
    assert "ROOST_TEST_ONLY" not in os.environ
