"""A model that takes its time to load: clients hear signs of life, and then their answer."""

from __future__ import annotations

import json
import re
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import msgspec
import pytest
from anthropic import Anthropic
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.clients.conftest import KEY, Live
from tests.system.processes import get

pytestmark = [pytest.mark.clients, pytest.mark.timeout(240)]
HELLO = {"role": "user", "content": "Say hello."}


def post(live: Live, path: str, body: object) -> bytes:
    """POST with the client's key and return the whole reply, which is a 200."""
    parts = urlsplit(live.url)
    with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=120)) as connection:
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        reply = connection.getresponse()
        raw = reply.read()
    assert reply.status == 200, raw
    return raw


def cool(live: Live) -> None:
    """Have the model unloaded."""
    node = msgspec.json.decode(get(live.url, "/roost/v1/fleet", KEY)[1])["nodes"][0]["id"]
    told = post(live, f"/roost/v1/nodes/{node}/unload", {"model": live.model, "wait_s": 60.0})
    assert json.loads(told)["done"]


@pytest.mark.parametrize(
    ("path", "sign"),
    [
        ("/v1/chat/completions", b"\n: "),
        ("/v1/messages", b"event: ping\n"),
    ],
)
def test_a_cold_model_gives_signs_of_life(real: Live, path: str, sign: bytes) -> None:
    """Several of them come before the first text, in the words of the API that was asked."""
    cool(real)
    body = {"model": real.model, "max_tokens": 5, "messages": [HELLO], "stream": True}
    raw = b"\n" + post(real, path, body)
    # The first chunk of a chat tells the role, with a content of nothing.
    first_text = re.search(rb'"text_delta"|"content":"[^"]', raw)
    assert first_text is not None
    assert raw[: first_text.start()].count(sign) >= 2


def test_the_official_clients_wait_for_a_cold_model(real: Live) -> None:
    """Streamed and whole: neither takes a sign of life for a part of the answer."""
    cool(real)
    openai = OpenAI(base_url=f"{real.url}/v1", api_key=KEY, max_retries=0, timeout=120)
    said: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello."}]
    chunks = openai.chat.completions.create(
        model=real.model, max_tokens=5, messages=said, stream=True
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    cool(real)
    anthropic = Anthropic(base_url=real.url, api_key=KEY, max_retries=0, timeout=120)
    with (
        closing(anthropic),
        anthropic.messages.stream(
            model=real.model, max_tokens=5, messages=[{"role": "user", "content": "Say hello."}]
        ) as messages,
    ):
        assert "".join(messages.text_stream)
    cool(real)
    with closing(openai):
        whole = openai.chat.completions.create(model=real.model, max_tokens=5, messages=said)
    assert whole.choices[0].message.content
