"""`/v1/responses` of a live roost, through the official client: told, kept, gone on from, left."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from typing import cast
from urllib.parse import urlsplit

import pytest
from openai import APIError, APIStatusError, BadRequestError, NotFoundError, OpenAI
from openai.types.responses import FunctionToolParam, Response, ResponseInputParam

from tests.dialects.test_responses_request import RECORDED
from tests.patience import PATIENCE_S
from tests.system.conftest import MODEL, Start
from tests.system.processes import wait

Client = Callable[[str], OpenAI]
SCRIPTED = ("serve", "--port", "0", "--backend", "scripted", "--ctx", "32768")
TOOL: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
ANSWER = [
    "<think>hm",
    "</think>\n\nI look. <tool_",
    'call>\n{"name": "weather", "arguments": {"city": "naïve 😀 歪 שלום"}}\n</tool_call>',
]


def scripted(*pieces: str, **more: object) -> str:
    """Ask the scripted backend to say this."""
    return "@script " + json.dumps({"pieces": pieces, **more})


def test_responses_are_told_kept_and_gone_on_from(start: Start, openai: Client) -> None:
    """Whole and streamed, with a tool and its result, by id, and away again.

    One process for all of it: what is promised is one way through the same parts.
    """
    client = openai(start(*SCRIPTED).url())
    create = client.responses.create
    whole = create(
        model=MODEL, input=scripted("naïve ", "😀 歪 ", "שלום"), instructions="Be brief."
    )
    assert (whole.output_text, whole.status) == ("naïve 😀 歪 שלום", "completed")
    assert client.responses.retrieve(whole.id).output_text == whole.output_text
    items = client.responses.input_items.list(whole.id)
    assert "@script" in json.dumps([item.model_dump() for item in items])

    asked = scripted(*ANSWER)
    with client.responses.stream(model=MODEL, input=asked, tools=[TOOL]) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert [item.type for item in streamed.output] == ["reasoning", "message", "function_call"]
    call = streamed.output[2]
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"city": "naïve 😀 歪 שלום"}

    result = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "sun"},
        {"role": "user", "content": scripted("Sunny.")},
    ]
    after = create(
        model=MODEL,
        input=cast("ResponseInputParam", result),
        previous_response_id=streamed.id,
        tools=[TOOL],
    )
    assert (after.output_text, after.previous_response_id) == ("Sunny.", streamed.id)
    assert after.usage is not None
    assert streamed.usage is not None
    assert after.usage.input_tokens > streamed.usage.input_tokens
    assert after.usage.input_tokens_details.cached_tokens > 0

    cut = create(model=MODEL, input=scripted("one ", "two "), max_output_tokens=1)
    assert cut.status == "incomplete"
    client.responses.delete(whole.id)
    for gone in (lambda: client.responses.retrieve(whole.id), lambda: client.responses.delete("x")):
        with pytest.raises(NotFoundError):
            gone()
    unkept = create(model=MODEL, input=scripted("x"), store=False)
    with pytest.raises(NotFoundError):
        client.responses.retrieve(unkept.id)
    with pytest.raises(BadRequestError, match="goes on from is not kept"):
        create(model=MODEL, input="x", previous_response_id=unkept.id)


def test_a_response_in_the_background_goes_on_by_itself(start: Start, openai: Client) -> None:
    """It is queued, then there; its events can be read again from any; it can be cancelled."""
    url = start(*SCRIPTED).url()
    client = openai(url)
    pieces = [f"w{number} " for number in range(12)]
    said = scripted(*pieces, delay_ms=30)
    queued = client.responses.create(model=MODEL, input=said, background=True)
    assert queued.status == "queued"
    assert client.responses.retrieve(queued.id).status in {"in_progress", "completed"}
    numbers = _numbers(url, queued.id, "")
    assert numbers == list(range(len(numbers)))
    done = _when(client, queued.id, "completed")
    assert done.output_text == "".join(pieces)
    assert _numbers(url, queued.id, "&starting_after=3") == numbers[4:]

    slow = scripted(*["tick "] * 900, delay_ms=50)
    running = client.responses.create(model=MODEL, input=slow, background=True)
    assert client.responses.cancel(running.id).status == "cancelled"
    assert _when(client, running.id, "cancelled").status == "cancelled"
    with pytest.raises(BadRequestError):
        client.responses.cancel(running.id)

    for name in (_left_running(client, slow), queued.id):
        client.responses.delete(name)
        for address in ("", "?stream=true", "/input_items"):
            assert _read(url, f"{name}{address}")[0] == 404, address
    with pytest.raises(APIStatusError):
        client.responses.create(model=MODEL, input="x", background=True, store=False)


def test_a_response_whose_gateway_is_killed_is_told_as_failed(start: Start, openai: Client) -> None:
    """Whoever was told of it finds it after kill -9, whether it was read as a stream or left."""
    roost = start(*SCRIPTED)
    create = openai(roost.url()).responses.create
    slow = scripted(*["tick "] * 900, delay_ms=50)
    left = create(model=MODEL, input=slow, background=True).id
    with pytest.raises(BadRequestError, match="still runs"):
        create(model=MODEL, input="x", previous_response_id=left)
    with create(model=MODEL, input=slow, background=True, stream=True) as stream:
        first = next(event for event in stream if event.type == "response.created")
        # What is kept is kept in order, and this answer waits for its own turn.
        create(model=MODEL, input=slow, background=True)
        roost.signal(signal.SIGKILL)
        roost.ends()
    found = openai(start(*SCRIPTED).url()).responses
    for name in (left, first.response.id):
        told = found.retrieve(name)
        assert told.status == "failed"
        assert told.error is not None
        assert "gateway ended" in told.error.message
    with pytest.raises(BadRequestError):
        found.cancel(left)


def test_failures_are_told_in_their_place(start: Start, openai: Client) -> None:
    """Before the stream by status, within it by the last event; recorded bodies are answered."""
    url = start(*SCRIPTED, "--ctx", "200").url()
    client = openai(url)
    with pytest.raises(NotFoundError):
        client.responses.create(model="nope", input="x")
    with pytest.raises(BadRequestError, match="prompt is too long") as long:
        client.responses.create(model=MODEL, input="word " * 500)
    assert long.value.code == "context_length_exceeded"
    broken = scripted("one ", "two ", fail_after=1)
    with client.responses.stream(model=MODEL, input=broken) as stream:
        last = list(stream)[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    with pytest.raises(APIError):
        client.responses.create(model=MODEL, input=broken)
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    for sent in RECORDED:
        if "Codex" in sent["client"]:
            continue
        body = json.dumps({**sent["body"], "model": MODEL})
        connection.request("POST", sent["target"], body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        raw = reply.read().decode()
        assert reply.status == 200, raw
        assert ("response.completed" in raw) is bool(sent["body"].get("stream"))
    connection.close()


def _when(client: OpenAI, name: str, status: str) -> Response:
    """Wait until a response is in a state."""
    found: list[Response] = []

    def there() -> bool:
        found[:] = [client.responses.retrieve(name)]
        return found[0].status == status

    wait(there, f"{name} is {status}")
    return found[0]


def _left_running(client: OpenAI, said: str) -> str:
    """Leave a response in the background that says this; what it was asked can be read."""
    running = client.responses.create(model=MODEL, input=said, background=True)
    assert client.responses.input_items.list(running.id).data
    return running.id


def _read(url: str, address: str) -> tuple[int, str]:
    """Read what is told at a response's address."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    connection.request("GET", f"/v1/responses/{address}")
    reply = connection.getresponse()
    status, raw = reply.status, reply.read().decode()
    connection.close()
    return status, raw


def _numbers(url: str, name: str, after: str) -> Sequence[int]:
    """Read a response's events to their end, and return their numbers."""
    status, raw = _read(url, f"{name}?stream=true{after}")
    assert status == 200, raw
    lines = [line[6:] for line in raw.splitlines() if line.startswith("data: ")]
    return [json.loads(line)["sequence_number"] for line in lines]
