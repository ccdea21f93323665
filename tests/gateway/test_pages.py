"""The web pages over real sockets: who may have them, under which headers, and what they may do."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import msgspec
import pytest

from roost.gateway.desk.addresses import ADDRESSES
from roost.gateway.desk.pages import (
    COORDINATOR,
    DOCS,
    FILES,
    HOME,
    TYPES,
    WebFile,
    known,
    read_web,
    wants_json,
)
from roost.gateway.front.access import Authorise, Principal, by_digest
from roost.gateway.routes import Places
from tests.gateway.conftest import SETTINGS, Stage, ask, staged

PAGES = {**HOME, **COORDINATOR, **DOCS}
KEYED: Authorise = by_digest({"0" * 64: Principal()})
"""Keys exist, and nobody here has one."""

WEB = read_web()
NAMES = tuple(WEB)
MARKUP = [file for file in WEB.values() if file.name.endswith(".html")]
OUTSIDE = (
    *("/web/", "/web", "/web/..", "/web/../pages.py", "/web/%2e%2e/pages.py", "/web/__init__.py"),
    *("/web/..%2fpages.py", "/web/..%5cpages.py", "/web//etc/passwd", "/web/%2fetc%2fpasswd"),
    *("/web/....//....//etc/passwd", "/web/app.js/../../pages.py", "/web/app.js%00.html"),
    *("/web/APP.JS", "/web/app.js.map", "/web/.%2e/", "/web/%c0%ae%c0%ae/pages.py", "/app.js"),
    *("/web/file:///etc/passwd", "/web/~root", "/web/C:%5cboot.ini", "/web/app.js;x", "/stats/x"),
)


@pytest.fixture
async def keyed() -> AsyncIterator[Stage]:
    """A gateway that asks for a key."""
    async with staged(authorise=KEYED) as made:
        yield made


def address(name: str) -> str:
    """Say where a file is."""
    return FILES + name


async def test_everything_of_a_page_is_there_without_a_key(keyed: Stage) -> None:
    """Pages and all their files, with their types, under one policy; the head alone as well."""
    served = [*PAGES.items(), *((address(name), name) for name in NAMES)]
    for path, name in served:
        reply = await ask(keyed.port, "GET", path)
        assert (reply.status, reply.body) == (200, WEB[name].body), path
        head = await ask(keyed.port, "HEAD", path)
        assert (head.status, head.body) == (200, b"")
        for one in (reply, head):
            headers = one.headers
            assert headers["content-type"] == TYPES["." + name.rpartition(".")[2]].decode()
            assert headers["content-length"] == str(len(WEB[name].body))
            assert headers["cache-control"] == "no-cache"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["etag"].startswith('"')
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'self';")
            assert "unsafe" not in policy
            assert "require-trusted-types-for 'script'" in policy


async def test_every_address_but_pages_and_health_needs_a_key(keyed: Stage) -> None:
    """Of the whole table of routes, which another test holds to what is served."""
    opened = set()
    for one in ADDRESSES:
        path = re.sub(r"\{\w+\}", "x", one.path.replace("{file}", "app.js"))
        reply = await ask(keyed.port, one.method, path)
        # A worker's heartbeat shows a join token, and where no worker may be it is forbidden.
        if reply.status != (403 if one.path.endswith("/heartbeat") else 401):
            opened.add((one.method, one.path))
    pages = {("GET", one.path) for one in ADDRESSES if one.tag == "pages"}
    assert opened == pages | {("GET", f"/{name}") for name in ("health", "ready", "openapi.json")}


async def test_what_a_page_asks_for_needs_a_key(keyed: Stage) -> None:
    """Data stays behind the key, whatever the page that asks; and nobody can write to a page."""
    for path in ("/v1/models", "/roost/v1/fleet", "/roost/v1/observability", "/coordinator/stats"):
        assert (await ask(keyed.port, "GET", path)).status == 401
    for path in (*PAGES, address("app.js")):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert (await ask(keyed.port, method, path)).status == 401, (method, path)


async def test_what_is_unchanged_is_not_sent_again(stage: Stage) -> None:
    """A tag that is still right gets 304 without a body, one that is not gets the file."""
    for path in ("/", address("app.js")):
        tag = (await ask(stage.port, "GET", path)).headers["etag"]
        for header in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = await ask(stage.port, "HEAD", path, if_none_match=header)
            assert (again.status, again.headers["etag"]) == (304, tag)
            assert "content-length" not in again.headers
        assert (await ask(stage.port, "GET", path, if_none_match='"other"')).status == 200


async def test_nothing_else_is_an_address(stage: Stage) -> None:
    """However a path is written, it leads to one of the files or nowhere."""
    for path in OUTSIDE:
        reply = await ask(stage.port, "GET", path)
        assert (reply.status, b"root:" in reply.body) == (404, False), path
    assert (await ask(stage.port, "POST", "/stats")).status == 405


async def test_a_page_has_one_address(stage: Stage) -> None:
    """Its files are beside it, so whoever asks with a slash too many is sent to it."""
    for asked, told in (("//", "/"), ("/stats/", "/stats"), ("/%73tats", "/stats")):
        reply = await ask(stage.port, "GET", asked)
        assert (reply.status, reply.headers["location"]) == (307, told)
    assert (await ask(stage.port, "GET", "/?utm=x")).status == 200
    places = Places(base_path="/llm")
    async with staged(msgspec.structs.replace(SETTINGS, places=places)) as below:
        reply = await ask(below.port, "GET", "/llm")
        assert (reply.status, reply.headers["location"]) == (307, "/llm/")
        assert (await ask(below.port, "GET", "/llm/")).body == WEB["index.html"].body
        assert (await ask(below.port, "GET", "/llm/web/app.js")).status == 200
        assert (await ask(below.port, "GET", "/web/app.js")).status == 404


async def test_a_stranger_gets_no_page(stage: Stage) -> None:
    """A name that was pointed here gets nothing, and no page may frame or read these."""
    for path in ("/", "/stats", address("app.js")):
        assert (await ask(stage.port, "GET", path, host="evil.example")).status in {400, 403}
        far = await ask(stage.port, "GET", path, origin="http://evil.example")
        assert "access-control-allow-origin" not in far.headers
        assert "frame-ancestors 'none'" in far.headers["content-security-policy"]
        assert far.headers["cross-origin-resource-policy"] == "same-origin"


async def test_programs_are_told_what_this_is(stage: Stage) -> None:
    """Who asks for JSON by name gets the addresses that programs want."""
    reply = await ask(stage.port, "GET", "/", accept="application/json")
    assert reply.json()["openai"] == "/v1"
    assert reply.headers["vary"] == "accept"
    browser = await ask(stage.port, "GET", "/", accept="text/html,application/json;q=0.9,*/*")
    assert browser.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("accept", "json"),
    [
        (b"", False),
        (b"*/*", False),
        (b"text/html,application/xhtml+xml,*/*;q=0.8", False),
        (b"application/json", True),
        (b"Application/JSON; charset=utf-8, */*", True),
        (b"text/*, application/json", False),
    ],
)
def test_who_wants_json(accept: bytes, *, json: bool) -> None:
    """Only who names it and no page."""
    assert wants_json(accept) is json


def test_tags_are_compared_whole() -> None:
    """A beginning is not enough, and an empty header is none."""
    assert not known(b"", b'"abc"')
    assert not known(b'"ab", "abcd"', b'"abc"')
    assert known(b'"ab",W/"abc"', b'"abc"')


def references(file: WebFile) -> set[str]:
    """List the files that one names."""
    text = file.body.decode()
    named = set(re.findall(r'(?:src|href)="web/([\w.-]+)"', text))
    return named | set(re.findall(r'(?:from|import) "\./([\w.-]+)"', text))


def test_files_know_each_other_and_nobody_else() -> None:
    """What is named exists, what exists is named, and no address leads to another machine."""
    named = {one for file in WEB.values() for one in references(file)}
    assert named == set(WEB) - set(PAGES.values())
    for file in WEB.values():
        text = file.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"""["'(](?:https?:)?//[\w]""", text), file.name


def test_pages_need_nothing_that_their_policy_forbids() -> None:
    """No script, style or listener stands in the markup itself."""
    for file in MARKUP:
        text = file.body.decode()
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text), file.name
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text)), file.name


def test_the_files_are_small() -> None:
    """A page over a slow line: nothing is compressed, so everything together stays small."""
    assert sum(len(file.body) for file in WEB.values()) < 256 * 1024
