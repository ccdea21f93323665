"""Tests of shards and variants: what belongs together, what is taken, what is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import RoostError
from roost.store.models.parts import Variant, check_shards, choose, shards_beside, variants
from roost.text.gguf import Header, read_header
from tests.store.gguf_writer import shards, tiny

FOLDER = (
    "README.md",
    "m-Q8_0.gguf",
    "mmproj-m-f16.gguf",
    "m-Q4_K_M.gguf",
    "big/m-F16-00002-of-00002.gguf",
    "big/m-F16-00001-of-00002.gguf",
    "m-Q5_K_M.GGUF",
    "other.gguf",
)


def refusal(names: tuple[str, ...], wanted: str = "") -> str:
    """Return the message with which a choice is refused."""
    with pytest.raises(RoostError) as caught:
        choose(variants(names), wanted)
    assert caught.value.failure.reason == "bad_request"
    return caught.value.failure.message


def test_a_folder_is_sorted_into_models() -> None:
    """The best quantisation first, shards as one, projectors and texts left out."""
    assert [one.files for one in variants(FOLDER)] == [
        ("m-Q4_K_M.gguf",),
        ("m-Q5_K_M.GGUF",),
        ("m-Q8_0.gguf",),
        ("big/m-F16-00001-of-00002.gguf", "big/m-F16-00002-of-00002.gguf"),
        ("other.gguf",),
    ]


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("", "m-Q4_K_M.gguf"),
        ("q8_0", "m-Q8_0.gguf"),
        ("Q5-K-M", "m-Q5_K_M.GGUF"),
        ("F16", "big/m-F16-00001-of-00002.gguf"),
        ("other.gguf", "other.gguf"),
        ("m-F16-00002-of-00002.gguf", "big/m-F16-00001-of-00002.gguf"),
        ("big/m-F16-00002-of-00002.gguf", "big/m-F16-00001-of-00002.gguf"),
    ],
)
def test_one_is_chosen_by_its_name_or_kind(wanted: str, name: str) -> None:
    """By a path, its last part, any shard's, or the name of the quantisation."""
    assert choose(variants(FOLDER), wanted).name == name


def test_what_cannot_be_chosen() -> None:
    """Nothing there, no such name, two of one name, a part missing: each in words."""
    assert "no file ends in" in refusal(("README.md", "mmproj.gguf"))
    assert "There are: m-Q4_K_M.gguf" in refusal(FOLDER, "q2_k")
    assert "Several" in refusal(("a/m.gguf", "b/m.gguf"), "m.gguf")
    assert choose(variants(("m.gguf", "b/m.gguf")), "m.gguf").name == "m.gguf"
    told = refusal(("m-00001-of-00003.gguf", "m-00003-of-00003.gguf"))
    assert "1 of its 3 parts cannot be found: m-00002-of-00003.gguf." in told
    assert "m-00009-of-00200.gguf and 191 more." in refusal(("m-00001-of-00200.gguf",))
    assert "more" in refusal(tuple(f"{number}.gguf" for number in range(30)), "x")


def test_a_whole_model_beats_a_better_one_with_a_part_missing() -> None:
    """Nobody asked for the one that is not whole."""
    found = variants(("m-Q4_K_M-00001-of-00002.gguf", "m-Q8_0.gguf"))
    assert choose(found).name == "m-Q8_0.gguf"


def test_the_parts_beside_a_shard() -> None:
    """Any part finds the others; a name that is no shard's is the whole model."""
    names = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "n-00001-of-00002.gguf")
    assert shards_beside(names[1], names).files == names[:2]
    assert shards_beside("m.gguf", names) == Variant(("m.gguf",))
    with pytest.raises(RoostError, match=r"n-00002-of-00002\.gguf"):
        shards_beside(names[2], names)


@given(st.lists(st.text(max_size=20).map(lambda stem: f"{stem}.gguf"), max_size=12, unique=True))
def test_every_model_file_is_in_one_variant(names: list[str]) -> None:
    """Whatever files are called, none is lost and none is in two variants."""
    found = [file for one in variants(names) for file in one.files]
    assert sorted(found) == sorted(name for name in names if "mmproj" not in name.lower())


@given(st.integers(0, 99_999), st.integers(0, 99_999))
def test_numbers_that_no_split_has_are_names(number: int, count: int) -> None:
    """Part 0 of 0, or 5 of 3, is a file that happens to be called so; counts are bounded."""
    (found,) = variants([f"m-{number:05}-of-{count:05}.gguf"])
    assert len(found.files) == 1
    assert len(found.missing) < 1024


def headers(files: list[bytes]) -> list[str]:
    """Return the verdict on files as one model, or nothing."""
    try:
        check_shards([read_header(raw) for raw in files])
    except RoostError as error:
        return [error.failure.message]
    return []


def test_headers_have_to_agree_with_the_names() -> None:
    """Whole and in order passes; a part too few, twice, or of another model does not."""
    one, two, three = shards(3)
    assert headers([tiny()]) == []
    assert headers([one, two, three]) == []
    assert "3 parts and 2 are here" in headers([one, two])[0]
    assert "3 parts and 1 are here" in headers([one])[0]
    assert "part 2 is not the one" in headers([one, three, two])[0]
    assert "part 3 is not the one" in headers([one, two, two])[0]
    assert "1 parts and 2 are here" in headers([tiny(), tiny()])[0]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["split.no", "split.count", "split.tensors.count"]),
            st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=3)),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_whatever_headers_say_of_a_split_is_judged(said: list[dict[str, int]]) -> None:
    """Values of any type and size are agreement or a verdict, and nothing else is raised."""
    made = [Header(3, dict(metadata), 1, 32, 0, 0) for metadata in said]
    with contextlib.suppress(RoostError):
        check_shards(made)
        assert len(made) == 1 or said[0]["split.count"] == len(made)


def test_tensors_that_are_nowhere_are_found_out() -> None:
    """The first part says how many tensors all of them have together."""
    claim = b"split.count" + b"\2\0\0\0"
    two_of_four = [raw.replace(claim + b"\4", claim + b"\2") for raw in shards(4)[:2]]
    assert "7 tensors together" in headers(two_of_four)[0]
