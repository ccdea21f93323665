"""`/api` of a live roost by Ollama's official client: what programs written for it do all day."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from ollama import ChatResponse, Client, Message, ResponseError
from pydantic import BaseModel

from tests.system.conftest import MODEL, Start
from tests.system.processes import wait

SERVE = ("serve", "--port", "0", "--backend", "scripted", "--ctx", "4096", "--slots", "2")
ANSWER = [
    "<think>hm</think>\n\nI look. <tool_",
    'call>\n{"name": "weather", "arguments": {"city": "naïve 😀 歪 שלום"}}\n</tool_call>',
]


class Place(BaseModel):
    """A format that a caller wants its answer in."""

    city: str


def scripted(*pieces: str, **more: object) -> dict[str, str]:
    """Ask the scripted backend to say this."""
    return {"role": "user", "content": "@script " + json.dumps({"pieces": pieces, **more})}


def weather(city: str) -> str:
    """Look at the sky.

    Args:
      city: where

    """
    return city


def test_the_official_client_lists_chats_calls_tools_and_unloads(start: Start) -> None:
    """Whole and streamed, with tools and their results, formats, limits, errors; one process."""
    with Client(host=start(*SERVE).url()) as client:
        _reads(client)
        _chats(client)
        _calls_tools(client)
        _fails(client)
        _stays_and_goes(client)


def _reads(client: Client) -> None:
    [listed] = client.list().models
    assert listed.model == MODEL
    assert listed.size
    shown = client.show(MODEL)
    assert shown.capabilities == ["completion", "tools"]
    assert shown.modelinfo
    loaded = client.generate(MODEL)
    assert (loaded.done, loaded.done_reason, loaded.response) == (True, "load", "")


def _chats(client: Client) -> None:
    words = ["naïve ", "😀 歪 ", "שלום"]
    plain = client.chat(f"{MODEL}:latest", [scripted(*words)], options={"num_predict": 64})
    assert plain.message.content == "naïve 😀 歪 שלום"
    assert plain.done_reason == "stop"
    assert plain.eval_count
    assert plain.total_duration
    assert plain.total_duration >= (plain.eval_duration or 0)
    parts = list(client.chat(MODEL, [scripted(*words)], stream=True))
    assert "".join(part.message.content or "" for part in parts) == "naïve 😀 歪 שלום"
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]


def _calls_tools(client: Client) -> None:
    asked = scripted(*ANSWER)
    called = client.chat(MODEL, [asked], tools=[weather], think=True)
    assert (called.message.thinking, called.message.content) == ("hm", "I look.")
    assert called.message.tool_calls
    [call] = called.message.tool_calls
    assert (call.function.name, call.function.arguments) == (
        "weather",
        {"city": "naïve 😀 歪 שלום"},
    )
    history: list[Mapping[str, object] | Message] = [
        asked,
        called.message,
        {"role": "tool", "content": "sun", "tool_name": "weather"},
        scripted("Sunny."),
    ]
    assert client.chat(MODEL, history, tools=[weather]).message.content == "Sunny."

    held = client.chat(MODEL, [scripted('{"city":"Rom"}')], format=Place.model_json_schema())
    assert Place.model_validate_json(held.message.content or "")
    cut = client.generate(MODEL, scripted("one ", "two ")["content"], options={"num_predict": 1})
    assert (cut.response, cut.done_reason) == ("o", "length")


def _fails(client: Client) -> None:
    with pytest.raises(ResponseError, match="does not exist") as unknown:
        client.chat("nope", [scripted("x")])
    assert unknown.value.status_code == 404
    with pytest.raises(ResponseError, match="images") as seen:
        client.chat(MODEL, [{"role": "user", "content": "?", "images": [b"\x89PNG"]}])
    assert seen.value.status_code == 400
    told: list[ChatResponse] = []
    with pytest.raises(ResponseError):
        told.extend(client.chat(MODEL, [scripted("one ", "two ", fail_after=1)], stream=True))
    assert not any(part.done for part in told)


def _stays_and_goes(client: Client) -> None:
    client.chat(MODEL, [scripted("stay")], keep_alive=-1)
    [running] = client.ps().models
    assert (running.model, running.context_length) == (MODEL, 4096)
    assert client.generate(MODEL, keep_alive=0).done_reason == "unload"
    wait(lambda: not client.ps().models, "the model is unloaded")
