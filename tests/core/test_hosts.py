"""Which texts can be the name of a machine."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.hosts import in_address, is_host, is_loopback


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("localhost", True),
        ("a.b.", True),
        ("127.0.0.1", True),
        ("::ffff:127.0.0.1", True),
        ("x" * 63, True),
        ("müller.example", True),
        ("", False),
        (".", False),
        ("a..b", False),
        (".a", False),
        ("a..", False),
        ("x" * 64, False),
        ("a." + "x" * 70 + ".b", False),
        ("é" * 64, False),
        ("a\udc80", False),
    ],
)
def test_names_and_what_is_none(text: str, *, fits: bool) -> None:
    """Labels have 1 to 63 letters; one dot may end a name."""
    assert is_host(text) == fits


@given(st.text(st.sampled_from("ab.-éß"), min_size=1, max_size=80))
def test_it_takes_what_a_look_up_takes(text: str) -> None:
    """What is a name is never an error of encodings, and what is none always is one."""
    try:
        text.encode("idna")
    except UnicodeError:
        assert not is_host(text)
    else:
        assert is_host(text)


def test_what_is_refused_would_not_fail_as_a_network_does() -> None:
    """The standard library's look-up raises something else than `OSError` for it."""
    with pytest.raises(UnicodeError):
        socket.getaddrinfo("a..b", 80)


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("::1", "[::1]"),
        ("fe80::1%eth0", "[fe80::1%eth0]"),
        ("::", "[::]"),
        ("a.b", "a.b"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_only_ipv6_stands_in_brackets(host: str, text: str) -> None:
    """Its colons would otherwise be taken for the one before a port."""
    assert in_address(host) == text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_addresses_of_this_machine_alone(host: str) -> None:
    """Who listens there needs no key and no certificate."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.0.0.1", "127.lan.example", "127.0.0.1.example", "127.", "", "localhost."],
)
def test_what_others_can_reach_or_nobody_knows(host: str) -> None:
    """A name may be looked up to any address, whatever it begins with."""
    assert not is_loopback(host)
