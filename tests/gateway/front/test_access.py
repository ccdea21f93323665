"""Who may ask: the rules alone, and then over the wire."""

from __future__ import annotations

import hashlib

import pytest

from roost.core.ids import TenantId
from roost.errors import Failure, RoostError
from roost.gateway.front.access import (
    LOOPBACK,
    Asked,
    Gate,
    Principal,
    allowed,
    anyone,
    by_digest,
    host_name,
    origin_name,
    origins,
    presented_key,
    trusted,
)
from roost.gateway.front.limits import FrontLimits
from tests.gateway.front.conftest import Reply, World, opened

ALICE = Principal(TenantId("key:alice"))
KEYS = by_digest({hashlib.sha256(b"sk-alice").hexdigest(): ALICE})


@pytest.mark.parametrize(
    ("authority", "name"),
    [
        (b"localhost", "localhost"),
        (b"LocalHost:7878", "localhost"),
        (b"127.0.0.1:1", "127.0.0.1"),
        (b"[::1]:80", "::1"),
        (b"[::1]", "::1"),
        (b"::1", "::1"),
        (b"example.org.", "example.org"),
        (b"", None),
        (b":80", None),
        (b"a:b", None),
        (b"[::1", None),
        (b"[::1]x", None),
        (b"user@localhost", None),
        (b"\xff", None),
    ],
)
def test_host_name(authority: bytes, name: str | None) -> None:
    """Port, brackets, case and a final dot do not matter; nonsense has no name."""
    assert host_name(authority) == name


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        (b"http://localhost:3000", "localhost"),
        (b"https://[::1]", "::1"),
        (b"null", None),
        (b"file://", None),
        (b"chrome-extension://abc", None),
        (b"http://localhost@evil.example", None),
    ],
)
def test_origin_name(origin: bytes, name: str | None) -> None:
    """Only pages from the web have a host to compare."""
    assert origin_name(origin) == name


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({b"authorization": b"Bearer abc"}, b"abc"),
        ({b"authorization": b"bearer  abc "}, b"abc"),
        ({b"x-api-key": b"abc"}, b"abc"),
        ({b"authorization": b"Basic x", b"x-api-key": b"abc"}, b"abc"),
        ({b"authorization": b"Bearer "}, None),
        ({}, None),
    ],
)
def test_presented_key(fields: dict[bytes, bytes], key: bytes | None) -> None:
    """Both headers that clients use are understood."""
    assert presented_key(fields) == key


def asked(method: str = "GET", path: str = "/v1/models", **fields: str) -> Asked:
    """Build a question; `x_api_key` is the header x-api-key."""
    named = {k.replace("_", "-").encode(): v.encode() for k, v in fields.items()}
    return Asked(method, path, named, "10.0.0.5")


def reason(gate: Gate, question: Asked) -> str:
    """Give the reason of a refusal, "" for none."""
    verdict = gate.check(question)
    return verdict.reason if isinstance(verdict, Failure) else ""


@pytest.mark.parametrize(
    ("bound", "extra", "host", "refused"),
    [
        ("127.0.0.1", (), "localhost:7878", False),
        ("127.0.0.1", (), "127.0.0.1", False),
        ("127.0.0.1", (), "[::1]:7878", False),
        ("127.0.0.1", (), "evil.example", True),
        ("127.0.0.1", (), "127.0.0.1.evil.example", True),
        ("127.0.0.1", (), "10.0.0.5", True),
        ("192.168.1.2", (), "192.168.1.2:7878", False),
        ("0.0.0.0", (), "10.0.0.5:7878", False),
        ("0.0.0.0", (), "10.0.0.6:7878", True),
        ("0.0.0.0", (), "0.0.0.0", True),
        ("::", (), "10.0.0.5", False),
        ("127.0.0.1", ("llm.home.example",), "LLM.home.example:443", False),
        ("127.0.0.1", ("llm.home.example",), "home.example", True),
    ],
)
def test_host_rule(bound: str, extra: tuple[str, ...], host: str, refused: bool) -> None:
    """The allow-list knows loopback, the bound host, what is added, and own addresses."""
    gate = Gate(allowed(bound, extra))
    assert (reason(gate, asked(host=host)) == "forbidden") is refused


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_origin_rule_for_writes(method: str) -> None:
    """Every method but GET and HEAD needs a known Origin, or none."""
    gate = Gate(allowed("127.0.0.1"))
    assert reason(gate, asked(method, host="localhost")) == ""
    assert reason(gate, asked(method, host="localhost", origin="http://localhost:3000")) == ""
    for origin in ("http://evil.example", "null", "http://localhost.evil.example"):
        assert reason(gate, asked(method, host="localhost", origin=origin)) == "forbidden"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_origin_does_not_matter_for_reads(method: str) -> None:
    """A read changes nothing, and without CORS headers the page cannot see it."""
    gate = Gate(allowed("127.0.0.1"))
    question = asked(method, host="localhost", origin="http://evil.example")
    assert reason(gate, question) == ""
    assert gate.cors(question) == ()


@pytest.mark.parametrize(
    ("method", "path", "needs_key"),
    [
        *(("GET", path, False) for path in ("/", "/health", "/ready", "/health/", "//ready")),
        *(("HEAD", path, False) for path in ("/", "/health", "/ready")),
        *(("OPTIONS", path, False) for path in ("/", "/v1/models", "/metrics")),
        *(("POST", path, True) for path in ("/", "/health", "/ready", "/v1/chat/completions")),
        *(("GET", path, True) for path in ("/metrics", "/v1/models", "/roost/v1/fleet")),
        *((m, "/v1/models", True) for m in ("HEAD", "PUT", "DELETE", "PATCH")),
        ("GET", "/health/x", True),
    ],
)
def test_routes_that_need_a_key(method: str, path: str, needs_key: bool) -> None:
    """Once keys exist, all is closed but the static, the harmless and the preflight."""
    gate = Gate(allowed("127.0.0.1"), KEYS)
    assert (reason(gate, asked(method, path)) == "unauthorized") is needs_key
    assert reason(gate, asked(method, path, x_api_key="sk-alice")) == ""
    wrong = reason(gate, asked(method, path, x_api_key="sk-bob"))
    assert wrong == ("unauthorized" if needs_key else "")


def test_principals() -> None:
    """A known key says who asks; without keys it is anyone."""
    gate = Gate(allowed("127.0.0.1"), KEYS)
    assert gate.check(asked(authorization="Bearer sk-alice")) == ALICE
    assert Gate(allowed("127.0.0.1")).check(asked()) == anyone({})


async def ask(world: World, line: str, *headers: str) -> Reply:
    """Send a request with these header lines."""
    text = "\r\n".join([f"{line} HTTP/1.1", *headers, "Content-Length: 0", "", ""])
    client = await world.client()
    await client.send(text.encode())
    return await client.reply(to_head=line.startswith("HEAD"))


async def test_wrong_host_is_403_on_every_route(world: World) -> None:
    """DNS rebinding stops at the door, also at open and at unknown routes."""
    for line in ("GET /", "HEAD /health", "GET /nowhere", "POST /echo", "OPTIONS /echo"):
        assert (await ask(world, line, "Host: evil.example:7878")).status == 403
    reply = await ask(world, "GET /hello", "Host: evil.example")
    assert reply.error["code"] == "forbidden"


async def test_preflight_is_answered_without_a_key() -> None:
    """A page of an allowed origin learns what it may send; the reply itself may be read, too."""
    async with opened(FrontLimits(), Gate(allowed("127.0.0.1"), KEYS)) as world:
        origin = "Origin: http://localhost:3000"
        wanted = "Access-Control-Request-Headers: authorization,x-custom"
        reply = await ask(world, "OPTIONS /v1/chat/completions", "Host: localhost", origin, wanted)
        assert reply.status == 204
        assert reply.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert reply.headers["access-control-allow-headers"] == "authorization,x-custom"
        assert "access-control-allow-credentials" not in reply.headers
        refused = await ask(world, "GET /hello", "Host: localhost", origin)
        assert refused.status == 401
        assert refused.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert refused.headers["www-authenticate"] == "Bearer"
        assert "x-roost-request-id" in refused.headers["access-control-expose-headers"]
        key = "Authorization: Bearer sk-alice"
        assert (await ask(world, "GET /hello", "Host: localhost", origin, key)).status == 200


async def test_no_cors_headers_for_strangers(world: World) -> None:
    """A preflight of a stranger is refused, and a read goes without CORS headers."""
    origin = "Origin: http://evil.example"
    refused = await ask(world, "OPTIONS /echo", "Host: localhost", origin)
    assert (refused.status, "access-control-allow-origin" in refused.headers) == (403, False)
    read = await ask(world, "GET /hello", "Host: localhost", origin)
    assert (read.status, "access-control-allow-origin" in read.headers) == (200, False)
    assert (await ask(world, "POST /echo", "Host: localhost", origin)).status == 403


async def test_plain_options(world: World) -> None:
    """OPTIONS without an origin, and of the whole server, is answered too."""
    for target in ("/echo", "*"):
        reply = await ask(world, f"OPTIONS {target}", "Host: localhost")
        assert (reply.status, "GET" in reply.headers["allow"]) == (204, True)


APP = "https://app.example.org"


@pytest.mark.parametrize(
    ("listed", "origin", "trusted"),
    [
        ((), APP, False),
        ((APP,), APP, True),
        ((APP,), APP.upper(), True),
        ((APP,), "http://app.example.org", False),
        ((APP,), f"{APP}:8443", False),
        ((APP,), f"{APP}.evil.example", False),
        ((f"{APP}:8443",), f"{APP}:8443", True),
        (("*",), "https://any.example", True),
        (("*",), "null", False),
        ((APP,), "null", False),
    ],
)
def test_pages_that_the_settings_name(listed: tuple[str, ...], origin: str, trusted: bool) -> None:
    """A page of a listed origin may write, read the answer, and has its preflight answered."""
    gate = Gate(allowed("127.0.0.1"), origins=origins(listed))
    question = asked("POST", host="localhost", origin=origin)
    assert (reason(gate, question) == "") is trusted
    assert bool(gate.cors(question)) is trusted
    asks = {"access_control_request_headers": "x-api-key, anthropic-version"}
    ahead = asked("OPTIONS", origin=origin, access_control_request_private_network="true", **asks)
    if not trusted:
        assert reason(gate, ahead) == "forbidden"
        assert gate.preflight(ahead) == ((b"allow", b"GET, HEAD, POST, DELETE, OPTIONS"),)
        return
    told = dict(gate.preflight(ahead))
    assert told[b"access-control-allow-origin"] == origin.encode()
    assert told[b"access-control-allow-headers"] == b"x-api-key, anthropic-version"
    assert told[b"access-control-allow-private-network"] == b"true"
    assert b"POST" in told[b"access-control-allow-methods"]
    assert told[b"vary"] == b"origin"
    assert b"access-control-allow-credentials" not in told
    exposed = told[b"access-control-expose-headers"].split(b", ")
    assert {b"x-ratelimit-remaining-tokens", b"anthropic-ratelimit-requests-reset"} <= set(exposed)


@pytest.mark.parametrize("text", ["app.example.org", f"{APP}/", f"{APP}/page", "ftp://a", "", "**"])
def test_what_is_no_origin_is_refused(text: str) -> None:
    """A setting that no browser's Origin can ever match is a mistake that is told."""
    with pytest.raises(RoostError) as refused:
        origins([text])
    assert refused.value.failure.param == "cors.origins"


@pytest.mark.parametrize(
    "text",
    [
        *("https://app.example.org", "*", "*.example.org", "a b", "a/b", "", "a..b", "a:b:c"),
        *("bücher.example", "a@b", "a:x", "[::1", "x" * 64, "a,b"),
    ],
)
def test_a_name_that_no_client_can_send_is_refused(text: str) -> None:
    """It would let nobody in, and whoever wrote it would look for the reason elsewhere."""
    with pytest.raises(RoostError) as refused:
        allowed("127.0.0.1", ("good.example", text))
    failure = refused.value.failure
    assert (failure.reason, failure.param) == ("bad_request", "allowed_hosts")
    assert repr(text) in failure.message


def test_names_are_allowed_as_people_write_them() -> None:
    """With a port, a last dot, capitals, an underline, brackets."""
    extra = ("App.Example.org.", "my_box:7878", "[2001:db8::1]:80", "10.0.0.9", "xn--bcher-kva.de")
    names = {"app.example.org", "my_box", "2001:db8::1", "10.0.0.9", "xn--bcher-kva.de"}
    assert allowed("0.0.0.0", extra).names == LOOPBACK | names


@pytest.mark.parametrize("text", ["10.0.0.0/8", "proxy.internal", "*", "", "10.0.0.1:80", "[::1]"])
def test_what_is_no_address_is_no_proxy(text: str) -> None:
    """Nothing that connects has such an address, so that nobody would be believed."""
    with pytest.raises(RoostError) as refused:
        trusted(("10.0.0.2", text))
    failure = refused.value.failure
    assert (failure.reason, failure.param) == ("bad_request", "trusted_proxies")
    assert repr(text) in failure.message


def test_proxies_are_known_by_addresses_as_connections_have_them() -> None:
    """However long somebody writes one."""
    texts = ("10.0.0.2", "2001:DB8:0::2", "::FFFF:10.0.0.3", "fe80::1%eth0")
    found = {"10.0.0.2", "2001:db8::2", "::ffff:10.0.0.3", "fe80::1%eth0"}
    assert trusted(texts) == found
