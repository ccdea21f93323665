"""Request heads, without a socket."""

from __future__ import annotations

import pytest

from roost.gateway.front.heads import Head, authority_of, bare, check, path_of, size_bytes

HOST = (b"host", b"h")


def head(
    *headers: tuple[bytes, bytes],
    method: str = "POST",
    target: bytes = b"/",
    version: str = "1.1",
) -> Head:
    """Build a head."""
    return Head(method, target, version, list(headers), dict(headers))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (head(HOST, version="2.0"), "bad_request"),
        (head(HOST, method="CONNECT", target=b"h:1"), "method_not_allowed"),
        (head(HOST, target=b"/\xff"), "bad_request"),
        (head(), "bad_request"),
        (head(HOST, (b"host", b"h")), "bad_request"),
        (head(HOST, (b"authorization", b"a"), (b"authorization", b"b")), "bad_request"),
        (head(HOST, (b"idempotency-key", b"a"), (b"idempotency-key", b"b")), "bad_request"),
        (head(HOST, (b"x-roost-class", b"bulk"), (b"x-roost-class", b"bulk")), "bad_request"),
        (head(HOST, target=b"http://other/"), "bad_request"),
        (head(HOST, target=b"h:1"), "bad_request"),
        (head(HOST, (b"content-length", b"1"), (b"content-length", b"1")), "bad_request"),
        (head(HOST, (b"content-length", b"1"), (b"transfer-encoding", b"chunked")), "bad_request"),
        (head(HOST, (b"transfer-encoding", b"gzip, chunked")), "bad_request"),
        (head(HOST, (b"transfer-encoding", b"chunked"), version="1.0"), "bad_request"),
        (head(HOST, (b"content-encoding", b"gzip")), "unsupported_encoding"),
        (head(HOST, (b"content-length", b"+1")), "bad_request"),
        (head(HOST, (b"content-length", b"101")), "body_too_large"),
        (head(HOST, (b"content-length", b"1" * 30)), "body_too_large"),
    ],
)
def test_refused(bad: Head, reason: str) -> None:
    """Each ambiguous or oversized head has its reason."""
    failure = check(bad, 100)
    assert failure is not None
    assert failure.reason == reason


@pytest.mark.parametrize(
    "good",
    [
        head(HOST),
        head(version="1.0"),
        head(HOST, (b"x", b"1"), (b"x", b"2")),
        head(HOST, (b"content-length", b"100")),
        head(HOST, (b"transfer-encoding", b"Chunked")),
        head(HOST, (b"content-encoding", b"identity")),
        head(HOST, target=b"http://h/x"),
        head(HOST, target=b"*", method="OPTIONS"),
    ],
)
def test_accepted(good: Head) -> None:
    """What every reader reads the same way passes; repeated harmless headers do, too."""
    assert check(good, 100) is None


@pytest.mark.parametrize(
    ("target", "authority", "path"),
    [
        (b"/a/b?c=d?e", None, (b"/a/b", b"c=d?e")),
        (b"//x/y", None, (b"//x/y", b"")),
        (b"*", None, (b"*", b"")),
        (b"http://h:1/y?z", b"h:1", (b"/y", b"z")),
        (b"http://h", b"h", (b"/", b"")),
        (b"http://h?z", b"h", (b"/", b"z")),
    ],
)
def test_targets(target: bytes, authority: bytes | None, path: tuple[bytes, bytes]) -> None:
    """The forms a target may have."""
    assert authority_of(target) == authority
    assert path_of(target) == path


def test_size() -> None:
    """Names, values and what separates them count."""
    assert size_bytes(head((b"host", b"h"), target=b"/abc")) == 4 + 5 + 4


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (b"idempotency-key", b" \tabc \t", b"abc"),
        (b"x", b"a b", b"a b"),
        (b"x", b"\x0ba\x0b", b"\x0ba\x0b"),
        (b"content-length", b"3 ", b"3 "),
        (b"transfer-encoding", b"chunked\t", b"chunked\t"),
    ],
)
def test_white_space_around_a_value(name: bytes, value: bytes, expected: bytes) -> None:
    """It is no part of a value, but for those that frame the body, where it is refused later."""
    assert bare(name, value) == expected
