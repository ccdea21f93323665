"""A folder that was made of a model says so by its seal, and is believed only as it was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.store.models.converted import SEAL, seal, state_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder that was made and sealed."""
    part, folder = tmp_path / "part", tmp_path / "made"
    part.mkdir()
    (part / "config.json").write_text("{}")
    (part / "model.safetensors").write_bytes(b"weights")
    seal(part, folder, "sha256:1", "library 1.0")
    assert not part.exists()
    return folder


def test_a_sealed_folder_is_whole(folder: Path) -> None:
    """For the model that it was made of, and no other."""
    assert state_of(folder, "sha256:1") == "whole"
    assert state_of(folder, "sha256:2") == "other"
    assert state_of(folder.with_name("none"), "sha256:1") == "missing"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", SEAL])
def test_a_changed_folder_is_not_believed(folder: Path, name: str) -> None:
    """Whatever was changed in it, or taken out of it."""
    (folder / name).write_bytes(b"?")
    assert state_of(folder, "sha256:1") == "changed"
    (folder / name).unlink()
    assert state_of(folder, "sha256:1") == "changed"


def test_half_made_is_changed(tmp_path: Path) -> None:
    """A folder without a seal was never finished, or is somebody else's."""
    assert state_of(tmp_path, "sha256:1") == "changed"
