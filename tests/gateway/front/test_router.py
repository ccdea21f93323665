"""From path to handler."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.gateway.front.router import Matched, NotMatched, Router, normalise, percent_decoded
from tests.gateway.front.conftest import World


def table() -> Router[str]:
    """Build a small table."""
    router: Router[str] = Router()
    router.add("GET", "/", "root")
    router.add("POST", "/v1/chat/completions", "chat")
    router.add("GET", "/v1/models", "models")
    router.add("GET", "/v1/models/{rest}", "model")
    return router


@pytest.mark.parametrize(
    ("method", "path", "handler", "rest"),
    [
        ("GET", "/", "root", ""),
        ("HEAD", "/", "root", ""),
        ("POST", "/v1/chat/completions", "chat", ""),
        ("POST", "/chat/completions", "chat", ""),
        ("POST", "/v1/chat/completions/", "chat", ""),
        ("POST", "//v1//chat/completions//", "chat", ""),
        ("POST", "/v1/ch%61t/completions", "chat", ""),
        ("GET", "/v1/models/", "models", ""),
        ("GET", "/models", "models", ""),
        ("GET", "/v1/models/a", "model", "a"),
        ("GET", "/models/a", "model", "a"),
        ("GET", "/v1/models/org/name:tag", "model", "org/name:tag"),
        ("GET", "/v1/models/org%2Fname:tag", "model", "org/name:tag"),
        ("GET", "/v1/models/org%2Fname%3Atag", "model", "org/name:tag"),
        ("GET", "/v1/models/100%", "model", "100%"),
        ("GET", "/v1/models/%ff", "model", "\ufffd"),
        ("GET", "/v1/models/%E6%AD%AA", "model", "歪"),
        ("GET", "/v1/models%2Fa", "model", "a"),
    ],
)
def test_found(method: str, path: str, handler: str, rest: str) -> None:
    """Aliases, odd slashes and every spelling of a model name lead to the right handler."""
    assert table().match(method, path) == Matched(handler, rest)


@pytest.mark.parametrize(
    "path", ["/nothing", "/v2/models", "/v1", "/v1/../metrics", "/v1/chat", "*", "/v1/v1/models"]
)
def test_not_found(path: str) -> None:
    """Everything else is a 404; dots are no way around."""
    found = table().match("GET", path)
    assert isinstance(found, NotMatched)
    assert (found.failure.reason, found.allow) == ("not_found", ())


def test_wrong_method() -> None:
    """A known path with a wrong method names the right ones."""
    found = table().match("DELETE", "/v1/models/a")
    assert isinstance(found, NotMatched)
    assert (found.failure.status, found.allow) == (405, ("GET", "HEAD"))


@pytest.mark.parametrize("pattern", ["v1", "/a/{rest}/b", "/{name}"])
def test_bad_pattern(pattern: str) -> None:
    """An open end stands only at the end."""
    with pytest.raises(ValueError, match="absolute path"):
        table().add("GET", pattern, "x")


@given(st.text(alphabet="/ab", max_size=12))
def test_normalise_is_stable(path: str) -> None:
    """No doubled slash, no trailing one, and doing it again changes nothing."""
    once = normalise("/" + path)
    assert normalise(once) == once
    assert "//" not in once
    assert once == "/" or not once.endswith("/")


@given(st.text(max_size=20))
def test_percent_decoding_undoes_encoding(text: str) -> None:
    """Whatever is encoded byte by byte comes back."""
    encoded = "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "replace"))
    assert percent_decoded(encoded) == text.encode("utf-8", "replace").decode()


async def test_over_the_wire(world: World) -> None:
    """Model names arrive as sent; 404 and 405 are in the usual shape; bad UTF-8 is no crash."""
    head = b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    reply = await world.ask(b"GET /v1/models/org%2Fname:tag" + head)
    assert reply.body == b'{"got":0,"rest":"org/name:tag"}'
    assert (await world.ask(b"GET /%ff%fe" + head)).status == 404
    assert (await world.ask(b"GET /v1/models/%ff?x=%ff" + head)).status == 200
    missing = await world.ask(b"GET /nowhere?x=/hello" + head)
    assert (missing.status, missing.error["code"]) == (404, "not_found")
    wrong = await world.ask(b"DELETE /hello" + head)
    assert (wrong.status, wrong.headers["allow"]) == (405, "GET, HEAD")
