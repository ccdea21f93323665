"""States on disk: whole or not there, private, and never used when anything about them differs."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from roost.core.ids import ModelId
from roost.core.model import RuntimeKey, RuntimeOptions
from roost.errors import RoostError
from roost.store import states
from roost.store.states import Origin

ORIGIN = Origin(
    RuntimeKey("b", ModelId("m"), "sha256:1", RuntimeOptions()), "build 7", b"\x01\0\0\0\0\0\0\0", 9
)
replace = msgspec.structs.replace


def written(tmp_path: Path, data: bytes = b"some state" * 1000) -> Path:
    """Write a state called `s1` and give its folder."""
    source = tmp_path / "source"
    source.write_bytes(data)
    folder = tmp_path / "kept"
    states.write(source, folder, "s1", ORIGIN)
    return folder


def names(folder: Path) -> list[str]:
    """Name what is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_what_was_written_is_found(tmp_path: Path) -> None:
    """The bytes are the same, nobody else may read them, and nothing unfinished is left."""
    folder = written(tmp_path)
    assert states.checked(folder, "s1", ORIGIN).read_bytes() == b"some state" * 1000
    assert names(folder) == ["s1.json", "s1.state"]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "other",
    [
        replace(ORIGIN, build="build 8"),
        replace(ORIGIN, known=b"\x02\0\0\0\0\0\0\0"),
        replace(ORIGIN, tokens=10),
        replace(ORIGIN, key=replace(ORIGIN.key, digest="sha256:2")),
        replace(ORIGIN, key=replace(ORIGIN.key, options=RuntimeOptions(ctx=8192))),
        replace(ORIGIN, key=replace(ORIGIN.key, backend="c")),
    ],
)
def test_another_origin_is_refused(tmp_path: Path, other: Origin) -> None:
    """Another model, build, context or conversation: the bytes mean something else there."""
    folder = written(tmp_path)
    with pytest.raises(RoostError, match="not as it was written"):
        states.checked(folder, "s1", other)


def spoil(folder: Path, how: str) -> None:
    """Do something to a state that a disk or a crash might do."""
    state, label = folder / "s1.state", folder / "s1.json"
    data = state.read_bytes()
    match how:
        case "cut":
            state.write_bytes(data[:-1])
        case "flipped":
            state.write_bytes(data[:500] + bytes([data[500] ^ 1]) + data[501:])
        case "grown":
            state.write_bytes(data + b"x")
        case "no state":
            state.unlink()
        case "no label":
            label.unlink()
        case "cut label":
            label.write_bytes(label.read_bytes()[:-5])
        case "newer label":
            label.write_bytes(label.read_bytes().replace(b'"version":1', b'"version":2'))


@pytest.mark.parametrize(
    "how", ["cut", "flipped", "grown", "no state", "no label", "cut label", "newer label"]
)
def test_anything_that_differs_is_refused(tmp_path: Path, how: str) -> None:
    """One bit is enough, and a state without its label is none."""
    folder = written(tmp_path)
    spoil(folder, how)
    with pytest.raises(RoostError) as caught:
        states.checked(folder, "s1", ORIGIN)
    assert caught.value.failure.reason == "storage_error"
    assert str(tmp_path) not in caught.value.failure.message


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """A source that is gone, or a disk that takes no more, leaves no half of a state behind."""
    folder = tmp_path / "kept"
    with pytest.raises(RoostError, match="cannot be used"):
        states.write(tmp_path / "missing", folder, "s1", ORIGIN)
    assert names(folder) == []
    full = Path("/dev/full")
    if full.exists():
        (folder / "s2.part").symlink_to(full)
        (tmp_path / "source").write_bytes(b"x" * 100_000)
        with pytest.raises(RoostError, match="No space left"):
            states.write(tmp_path / "source", folder, "s2", ORIGIN)
        assert names(folder) == []


def test_removing_is_thorough_and_harmless(tmp_path: Path) -> None:
    """Both files go; a state that is not there is no error."""
    folder = written(tmp_path)
    states.remove(folder, "s1")
    states.remove(folder, "s1")
    assert names(folder) == []
    assert states.free_bytes(folder) > 0
    assert states.free_bytes(tmp_path / "missing") == 0
