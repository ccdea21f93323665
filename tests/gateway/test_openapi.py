"""The document of all addresses: it has every route and nothing else, and reads as OpenAPI."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from roost.gateway.desk.addresses import ADDRESSES, TAGS, Address
from roost.gateway.desk.openapi import document
from roost.gateway.desk.pages import FILES
from roost.gateway.front.access import Principal, by_digest
from tests.gateway.conftest import SETTINGS, Stage, ask, staged

DOCUMENT = json.loads(document())
FILE = "/web/{file}"


def example(address: Address) -> str:
    """Fill in an address: a file that is there, a name for everything else."""
    return re.sub(r"\{\w+\}", "x", address.path.replace("{file}", "app.js"))


async def test_every_route_is_in_it_and_nothing_else(stage: Stage) -> None:
    """Whoever adds a route describes it; whoever describes one has it served."""
    routes = stage.gateway.routes
    assert routes is not None
    served = {(method, _whole(pattern)) for method, pattern in routes.served()}
    told = {(one, routes.pattern_of(one.method, example(one))) for one in ADDRESSES}
    assert [one.path for one, pattern in told if pattern is None] == []
    assert {(one.method, _whole(pattern or "")) for one, pattern in told} == served


def _whole(pattern: str) -> str:
    """All files of pages are one address."""
    return FILE if pattern.startswith(FILES) else pattern


def references(value: object) -> Iterator[str]:
    """List what a document refers to."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for one in value.values():
            yield from references(one)
    if isinstance(value, list):
        for one in value:
            yield from references(one)


def test_everything_it_refers_to_is_there() -> None:
    """By plain names, each of one type."""
    names = DOCUMENT["components"]["schemas"]
    found = {one.removeprefix("#/components/schemas/") for one in references(DOCUMENT)}
    assert found <= set(names)
    assert [name for name in names if not name.isidentifier()] == []


def test_every_operation_is_whole() -> None:
    """A name of its own, a tag that is explained, all parts of its path, and what failures say."""
    names = []
    for path, methods in DOCUMENT["paths"].items():
        for told in methods.values():
            names.append(told["operationId"])
            assert set(told["tags"]) <= set(TAGS)
            parts = [one["name"] for one in told.get("parameters", []) if one["in"] == "path"]
            assert parts == re.findall(r"\{(\w+)\}", path)
            assert "default" in told["responses"]
    assert len(set(names)) == len(names) == len(ADDRESSES)


def test_a_base_is_where_its_server_is() -> None:
    """Clients put it before every address."""
    assert json.loads(document("/models"))["servers"] == [{"url": "/models"}]
    assert DOCUMENT["servers"] == [{"url": "/"}]


async def test_it_is_served_to_whoever_has_no_key() -> None:
    """It says what there is, and nothing of what anybody has; the page shows it."""
    keyed = by_digest({"0" * 64: Principal()})
    async with staged(SETTINGS, authorise=keyed) as stage:
        reply = await ask(stage.port, "GET", "/openapi.json")
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert reply.json() == DOCUMENT
        page = await ask(stage.port, "GET", "/docs")
        assert (page.status, b"openapi.json" in page.body) == (200, True)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat"])
def test_a_failure_is_told_as_its_api_does(path: str) -> None:
    """OpenAI's, Anthropic's and Ollama's clients read three different shapes."""
    told = DOCUMENT["paths"][path]["post"]["responses"]["default"]
    name = told["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    expected = {"/v1/chat/completions": "OpenAIError", "/v1/messages": "AnthropicError"}
    assert name == expected.get(path, "OllamaError")
