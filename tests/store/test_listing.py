"""Tests of what a hub tells of a repository, and of licences that ask for agreement."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import RoostError
from roost.store.pulling.listing import Listing, asks_agreement, not_agreed, read_listing

SHA = "0123456789abcdef0123456789abcdef01234567"


def test_a_repository() -> None:
    """Files, revision and licence are read; fields of tomorrow do not matter."""
    raw = (
        b'{"sha":"%s","gated":"manual","x":[1],"siblings":[{"rfilename":"a.gguf","size":1}],'
        b'"cardData":{"license":"other","license_name":"acme\\u001b[2J-1","y":2}}' % SHA.encode()
    )
    assert read_listing(raw) == Listing(("a.gguf",), SHA, "acme\ufffd[2J-1", gated=True)


@pytest.mark.parametrize(
    ("raw", "listing"),
    [
        (b"{}", Listing((), "main", "", gated=False)),
        (b'{"sha":"../x","gated":false,"cardData":null}', Listing((), "main", "", gated=False)),
        (
            b'{"cardData":{"license":["mit","gemma"]}}',
            Listing((), "main", "mit, gemma", gated=False),
        ),
    ],
)
def test_what_is_not_said(raw: bytes, listing: Listing) -> None:
    """Silence is no licence and the newest revision; what is no revision never gets into a path."""
    assert read_listing(raw) == listing


def test_names_that_lead_elsewhere_are_no_files() -> None:
    """What a hub calls a file becomes a part of an address, and of a source."""
    names = ("a.gguf", "b/c.gguf", "../d.gguf", "b/../../e.gguf", "/f.gguf", "g\\h.gguf", "i\n")
    raw = msgspec.json.encode({"siblings": [{"rfilename": name} for name in names]})
    assert read_listing(raw).files == ("a.gguf", "b/c.gguf")


@given(st.binary(max_size=200))
def test_rubbish_is_a_verdict(raw: bytes) -> None:
    """Whatever a hub says is a listing of files, or an error about the hub."""
    with contextlib.suppress(RoostError):
        assert len(read_listing(raw).files) < len(raw)


@pytest.mark.parametrize(
    ("licence", "gated", "asked"),
    [
        ("apache-2.0", False, False),
        ("", False, False),
        ("mit", True, True),
        ("gemma", False, True),
        ("Gemma Terms of Use", False, True),
        ("llama3.2", False, True),
        ("Llama 3 Community License", False, True),
        ("ollama-like", False, False),
    ],
)
def test_who_asks_for_agreement(licence: str, *, gated: bool, asked: bool) -> None:
    """A gate of the hub, and licences whose terms bind whoever uses the model."""
    assert asks_agreement(licence, gated=gated) == asked


def test_the_refusal_says_what_to_read_and_to_type() -> None:
    """In one line, whatever the source calls its licence."""
    message = not_agreed("two\nlines", "http://hub/o/r").failure.message
    assert "two lines" in message
    assert "http://hub/o/r" in message
    assert "--accept-licence" in message
