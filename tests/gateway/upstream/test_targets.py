"""What the operator types, and which headers cross."""

from __future__ import annotations

import pytest

from roost.core.ids import RequestId
from roost.gateway.upstream.headers import (
    is_events,
    reply_headers,
    request_head,
    request_prefix,
)
from roost.gateway.upstream.routes import ROUTES, ProxyRoute
from roost.gateway.upstream.targets import Target, parse_target, parse_targets


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://w1:8080", Target("upstream-1", "w1", 8080)),
        ("http://w1", Target("upstream-1", "w1", 80)),
        ("https://w1/", Target("upstream-1", "w1", 443, tls=True)),
        ("gpu=http://10.0.0.1:8000/v1", Target("gpu", "10.0.0.1", 8000)),
        ("gpu=https://w1:444/llm/v1/", Target("gpu", "w1", 444, tls=True, base="/llm")),
        ("http://[::1]:8080", Target("upstream-1", "::1", 8080)),
        ("http://[::1]", Target("upstream-1", "::1", 80)),
    ],
)
def test_parse(text: str, target: Target) -> None:
    """Names, ports, prefixes and a pasted /v1 are understood."""
    assert parse_target(text, 1) == target


@pytest.mark.parametrize(
    "text",
    [
        *("w1:8080", "ftp://w1", "http://", "http://:80", "http://w1:x", "http://w1:0", ""),
        *("http://w1:70000", "http://user@w1", "http://w1/?a=b", "http://w1/#f", "http://w1\\x"),
        *("bad name=http://w1", "http://w1 /x", "http://w1\r\nX: y", "a=b=http://w1", "http://[x]"),
        *("http://w1:٣", "http://a..b", "http://.a", f"http://{'x' * 64}.b"),
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    """No user part, no query, no white space, no other scheme."""
    with pytest.raises(ValueError, match=r"upstream|port"):
        parse_target(text, 1)


def names(*urls: str, before: tuple[Target, ...] = ()) -> list[str]:
    """Parse a list and name its servers."""
    return [target.name for target in parse_targets(urls, [], before)]


def test_a_list_has_keys_in_its_order() -> None:
    """A dash and a missing key are none; more keys than servers are a mistake."""
    targets = parse_targets(["http://a", "x=http://b", "http://c"], ["-", "k"])
    assert [(t.name, t.host, t.key) for t in targets] == [
        ("upstream-1", "a", None),
        ("x", "b", "k"),
        ("upstream-3", "c", None),
    ]
    with pytest.raises(ValueError, match="more keys"):
        parse_targets(["http://a"], ["k", "k"])
    with pytest.raises(ValueError, match="the name x"):
        parse_targets(["x=http://a", "x=http://b"], [])


def test_taking_one_away_renames_nobody() -> None:
    """A server keeps its name wherever it stands in the list; a new one gets one that is free."""
    before = parse_targets(["http://a", "http://b", "http://a"], [])
    assert names("http://b", before=before) == ["upstream-2"]
    assert names("http://b", "http://c", before=before) == ["upstream-2", "upstream-4"]
    assert names("http://a", "http://a", before=before) == ["upstream-1", "upstream-3"]
    assert names("http://c", "http://a", before=before[:2]) == ["upstream-3", "upstream-1"]
    assert names("http://c", "http://d") == ["upstream-1", "upstream-2"]
    assert names("upstream-2=http://c", "http://d") == ["upstream-2", "upstream-3"]


def test_authority_and_url() -> None:
    """The port is named only where it has to be."""
    assert parse_target("http://w1", 1).authority == "w1"
    assert parse_target("https://[::1]:8443/x", 1).url == "https://[::1]:8443/x"
    assert parse_target("http://w1:443", 1).authority == "w1:443"


def test_request_head() -> None:
    """A head is built from a list of names; nothing else of the client's crosses."""
    fields = {b"content-type": b"application/json", b"authorization": b"Bearer c", b"te": b"x"}
    prefix = request_prefix(Target("a", "w1", 8080, key="k"))
    head = request_head("POST", b"/v1/x", prefix, fields, RequestId("id"), 5)
    assert head == (
        b"POST /v1/x HTTP/1.1\r\nhost: w1:8080\r\nconnection: keep-alive\r\n"
        b"authorization: Bearer k\r\ncontent-type: application/json\r\nx-request-id: id\r\n"
        b"content-length: 5\r\n\r\n"
    )
    bare = request_head("GET", b"/", b"", {}, RequestId("id"), None)
    assert bare == b"GET / HTTP/1.1\r\nx-request-id: id\r\n\r\n"


def test_reply_headers() -> None:
    """A stream gets the headers that proxies need, once each."""
    given = [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"max-age=1"),
        (b"transfer-encoding", b"chunked"),
        (b"retry-after", b"3"),
    ]
    assert is_events(given)
    assert not is_events([(b"content-type", b"application/json")])
    names = [name for name, _ in reply_headers(given, b"a", events=True)]
    expected = [b"content-type", b"cache-control", b"x-accel-buffering", b"retry-after"]
    assert names == [*expected, b"x-roost-node"]
    plain = dict(reply_headers(given, b"a", events=False))
    assert plain[b"cache-control"] == b"max-age=1"


def test_route_paths() -> None:
    """A model's name goes out as one segment, whatever is in it."""
    model = next(r for r in ROUTES if r.pattern.endswith("{rest}"))
    assert model.path("org/a:b", b"") == b"/v1/models/org%2Fa:b"
    assert model.path("歪 ?#", b"") == b"/v1/models/%E6%AD%AA%20%3F%23"
    assert ProxyRoute("POST", "/v1/messages").path("", b"beta=true") == b"/v1/messages?beta=true"
