"""States on disk: whole or not there, private, and never used when anything about them differs."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from roost.core.ids import SessionId
from roost.core.model import RuntimeOptions
from roost.errors import RoostError
from roost.store import states
from roost.store.states import Facts, Label

KNOWN = b"\x01\0\0\0\0\0\0\0"
FACTS = Facts("b", "m", "sha256:1", "build 7", "x86_64", RuntimeOptions())
LABEL = Label(SessionId(1), FACTS, "t_1", KNOWN, 9, saved_unix_s=1000)
replace = msgspec.structs.replace


def written(tmp_path: Path, data: bytes = b"some state" * 1000) -> Path:
    """Write a state called `s1` and give its folder."""
    source = tmp_path / "source"
    source.write_bytes(data)
    folder = tmp_path / "kept"
    states.write(source, folder, "s1", LABEL)
    return folder


def checked(folder: Path) -> Path:
    """Look at every byte of what `written` has written."""
    return states.checked(folder, "s1", FACTS.kin, KNOWN, 9)


def names(folder: Path) -> list[str]:
    """Name what is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_what_was_written_is_found(tmp_path: Path) -> None:
    """The bytes are the same, nobody else may read them, and nothing unfinished is left."""
    folder = written(tmp_path)
    assert checked(folder).read_bytes() == b"some state" * 1000
    assert names(folder) == ["s1.json", "s1.state"]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "other",
    [
        replace(FACTS, build="build 8"),
        replace(FACTS, machine="arm64"),
        replace(FACTS, digest="sha256:2"),
        replace(FACTS, options=RuntimeOptions(ctx=8192)),
        replace(FACTS, backend="c"),
        replace(FACTS, layout=1),
    ],
)
def test_another_kin_is_refused(tmp_path: Path, other: Facts) -> None:
    """Another model, build, context or processor: the bytes mean something else there."""
    folder = written(tmp_path)
    assert other.kin != FACTS.kin
    assert len(other.differs(FACTS)) == 1
    with pytest.raises(RoostError, match="not as it was written"):
        states.checked(folder, "s1", other.kin, KNOWN, 9)


def test_another_conversation_is_refused(tmp_path: Path) -> None:
    """What is asked for has to be what is there, to the token."""
    folder = written(tmp_path)
    for known, tokens in ((KNOWN, 10), (KNOWN * 2, 9)):
        with pytest.raises(RoostError, match="not as it was written"):
            states.checked(folder, "s1", FACTS.kin, known, tokens)


def test_a_pin_is_part_of_the_label(tmp_path: Path) -> None:
    """It is set and taken away in place, and the bytes stay what they are."""
    folder = written(tmp_path)
    for pinned in (True, False):
        states.relabel(folder, "s1", pinned=pinned)
        assert states.read_label(folder, "s1").pinned is pinned
        assert checked(folder).read_bytes() == b"some state" * 1000


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
            label.write_bytes(states.sealed(replace(states.read_label(folder, "s1"), version=3)))
        case "flipped label":
            label.write_bytes(label.read_bytes().replace(b'"tokens":9', b'"tokens":8'))
        case "a link":
            state.rename(folder / "elsewhere")
            state.symlink_to(folder / "elsewhere")
        case "a linked label":
            label.rename(folder / "elsewhere")
            label.symlink_to(folder / "elsewhere")


@pytest.mark.parametrize(
    "how",
    [
        *("cut", "flipped", "grown", "no state", "a link"),
        *("no label", "cut label", "newer label", "flipped label", "a linked label"),
    ],
)
def test_anything_that_differs_is_refused(tmp_path: Path, how: str) -> None:
    """One bit is enough, and a state without its label is none."""
    folder = written(tmp_path)
    spoil(folder, how)
    with pytest.raises(RoostError) as caught:
        checked(folder)
    assert caught.value.failure.reason == "storage_error"
    assert str(tmp_path) not in caught.value.failure.message


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """A source that is gone, or a disk that takes no more, leaves no half of a state behind."""
    folder = tmp_path / "kept"
    with pytest.raises(RoostError, match="cannot be used"):
        states.write(tmp_path / "missing", folder, "s1", LABEL)
    assert names(folder) == []
    full = Path("/dev/full")
    if full.exists():
        (folder / "s2.part").symlink_to(full)
        (tmp_path / "source").write_bytes(b"x" * 100_000)
        with pytest.raises(RoostError, match="No space left"):
            states.write(tmp_path / "source", folder, "s2", LABEL)
        assert names(folder) == []


def test_removing_is_thorough_and_harmless(tmp_path: Path) -> None:
    """Both files go; a state that is not there is no error."""
    folder = written(tmp_path)
    states.remove(folder, "s1")
    states.remove(folder, "s1")
    assert names(folder) == []
    assert states.free_bytes(folder) > 0
    assert states.free_bytes(tmp_path / "missing") == 0
