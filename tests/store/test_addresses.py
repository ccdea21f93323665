"""Tests of the addresses a download may visit."""

from __future__ import annotations

import pytest

from roost.errors import RoostError
from roost.store.pulling.addresses import named_sha256, next_address, origin

SHA = "a" * 64


def test_origins_tell_servers_apart() -> None:
    """Scheme, host and port make a server; path, case of the host and default ports do not."""
    assert origin("https://HOST/x") == origin("https://host:443/y") == ("https", "host", 443)
    others = ("http://host", "https://host:444", "https://host.evil", "https://hos")
    assert all(origin(other) != origin("https://host/") for other in others)


@pytest.mark.parametrize(
    "url",
    [
        *("", "host", "ftp://host", "ftp://host:80", "file:///x", "http://", "http://h:x"),
        "https://u:p@host/",
    ],
)
def test_what_is_no_address_of_a_server(url: str) -> None:
    """Other schemes, missing hosts and passwords in addresses are refused."""
    with pytest.raises(RoostError) as caught:
        origin(url)
    assert caught.value.failure.reason == "bad_request"


@pytest.mark.parametrize(
    ("url", "location", "target"),
    [
        ("https://a/b/c", "d", "https://a/b/d"),
        ("https://a/b", "/d", "https://a/d"),
        ("https://a/b", "https://c/d", "https://c/d"),
        ("https://a/b", "//c/d", "https://c/d"),
        ("http://a/b", "https://c/d", "https://c/d"),
        ("http://a/b", "http://c/d", "http://c/d"),
    ],
)
def test_redirects_that_are_followed(url: str, location: str, target: str) -> None:
    """Relative and absolute redirects lead where they say."""
    assert next_address(url, location) == target


@pytest.mark.parametrize(
    "location", [None, "", "http://a/b", "HTTP://a/b", "file:///x", "data:,x", "ftp://a/b"]
)
def test_redirects_that_are_refused(location: str | None) -> None:
    """An encrypted address never leads to an unencrypted one, and none to another scheme."""
    with pytest.raises(RoostError) as caught:
        next_address("https://a/b", location)
    assert caught.value.failure.reason == "upstream_error"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((f'"{SHA}"',), SHA),
        ((f'W/"{SHA}"',), SHA),
        ((SHA, "b" * 64), SHA),
        ((None, SHA), SHA),
        (('"v1"', None), None),
        ((f'"{SHA}0"',), None),
        ((SHA.upper(),), None),
        ((), None),
    ],
)
def test_digests_named_in_headers(values: tuple[str | None, ...], expected: str | None) -> None:
    """Only 64 hexadecimal digits are a sha256; the first header that has one counts."""
    assert named_sha256(*values) == expected
