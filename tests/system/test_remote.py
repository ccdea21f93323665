"""A model that another roost serves: the contract over HTTP, and a request through two of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from roost.backends.base import StartSettings
from roost.backends.openai.openai_http import OpenaiHttp
from roost.core.model import RuntimeKey, RuntimeOptions
from roost.errors import RoostError
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from roost.testing.conformance import Subject, examine, failed, table
from tests.system.conftest import MODEL, Start
from tests.system.processes import Roost, fetch

UNCLAIMED = {
    *("exact_token_count", "seed", "replay", "prefix_cache", "sessions", "state"),
    *("logprobs", "logit_bias", "json_schema", "grammar", "embeddings", "rerank"),
}


def card(folder: Path, url: str, **fields: str) -> Path:
    """Write the card of a model on another server."""
    path = folder / "far.toml"
    told = {"backend": "openai_http", "url": url, **fields}
    lines = [f'{name} = "{value}"' for name, value in told.items()]
    path.write_text("\n".join((*lines, "ctx = 32768")))
    return path


def subject(folder: Path, url: str, **fields: str) -> Subject:
    """Give the backend with a card installed in a home of its own."""
    store = ModelStore(Home.open(folder / "far"))
    manifest = store.add_file(card(folder, url, **fields), link=False)
    key = RuntimeKey("openai_http", manifest.id, manifest.digest, RuntimeOptions(slots=2))
    settings = StartSettings(str(folder / "run"), str(folder / "far.log"))
    return Subject(OpenaiHttp(), key, manifest, settings)


@pytest.mark.slow
async def test_another_roost_keeps_every_promise(start: Start, tmp_path: Path) -> None:
    """All that the dialect promises holds, and what is not known of a server is not claimed."""
    with start("serve", "--backend", "scripted", "--ctx", "32768", "--port", "0") as roost:
        results = await examine(subject(tmp_path, f"{roost.url()}/v1"))
        assert failed(results) == [], table(results)
        missing = {one.detail for one in results if one.status == "not claimed"}
        assert {name for detail in missing for name in detail[6:].split(", ")} == UNCLAIMED


@pytest.mark.slow
async def test_what_cannot_be_used_is_told(start: Start, tmp_path: Path) -> None:
    """No server, another model: the load fails with what to look at."""
    for fields, what in (
        ({}, "cannot be connected to"),
        ({"key_file": "/no/such/file"}, "key_file cannot be read"),
    ):
        assert what in await load_failure(subject(tmp_path, "http://127.0.0.1:1", **fields))
    with start("serve", "--backend", "scripted", "--port", "0") as roost:
        wrong = subject(tmp_path, roost.url(), model="large")
        assert await load_failure(wrong) == "The server has 1 models, and none is 'large'."


async def load_failure(wrong: Subject) -> str:
    """Start what cannot start and give the message."""
    with pytest.raises(RoostError) as caught:
        await wrong.backend.start(wrong.key, wrong.manifest, wrong.settings, lambda _: None)
    assert caught.value.failure.reason == "load_failed"
    return caught.value.failure.message


@pytest.mark.slow
def test_a_request_goes_through_two_of_them(
    start: Start, openai: Callable[[str], OpenAI], tmp_path: Path
) -> None:
    """One that has only a card serves the other's model, streamed, with the other's counts.

    What it is asked for is nobody's to end: the other one serves on when the first has gone.
    """
    home = tmp_path / "near"
    with start("serve", "--backend", "scripted", "--port", "0") as far:
        ModelStore(Home.open(home)).add_file(card(tmp_path, far.url(), model=MODEL), link=False)
        with Roost(tmp_path / "near.log", "serve", "--port", "0", home=home) as near:
            wanted: list[ChatCompletionMessageParam] = [
                {"role": "user", "content": "over the hills"}
            ]
            direct = openai(far.url()).chat.completions.create(model=MODEL, messages=wanted)
            stream = openai(near.url()).chat.completions.create(
                model="far", messages=wanted, stream=True, stream_options={"include_usage": True}
            )
            chunks = list(stream)
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert text == "over the hills" == direct.choices[0].message.content
            counts = [
                (usage.prompt_tokens, usage.completion_tokens)
                for usage in (direct.usage, chunks[-1].usage)
                if usage
            ]
            assert counts[0] == counts[1]
            (node,) = json.loads(fetch(near.url(), "/roost/v1/fleet"))["nodes"]
            (offer,) = node["models"]
            assert (offer["kv_bytes"], offer["workspace_bytes"]) == (None, None)
            # Nobody here runs a model: what there is of processes renders nothing and holds none.
            assert near.descendants() == []
        again = openai(far.url()).chat.completions.create(model=MODEL, messages=wanted)
        assert again.choices[0].message.content == text
