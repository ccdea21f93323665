"""Servers of the OpenAI dialect: what they say, what they refuse, what they are never asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from roost.backends.base import Prepared, SlotUse, Telemetry
from roost.backends.http1.exchange import Place
from roost.backends.openai.answer import DONE, Answer
from roost.backends.openai.openai_http import RemoteRuntime
from roost.backends.openai.stream import Served, body_of
from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Usage
from roost.core.request import (
    ChatPrompt,
    Continuation,
    GenerateRequest,
    JsonAny,
    Message,
    Offer,
    Prompt,
    Sampling,
    TextPrompt,
    TokensPrompt,
    Tool,
    ToolCall,
)
from roost.errors import RoostError
from tests.backends.subjects import MODEL, key_of

CHAT = ChatPrompt((Message("system", "Be brief."), Message("user", "Hello", name="ann")))
EVENTS = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'


def asked(prompt: Prompt = CHAT, max_tokens: int | None = 8, **more: object) -> GenerateRequest:
    """Make a request."""
    return msgspec.structs.replace(GenerateRequest(MODEL, prompt, max_tokens), **more)


def chunk(text: str = "", end: str = "", **more: object) -> bytes:
    """Write what a server streams."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": end or None}
    return msgspec.json.encode({"choices": [choice], **more})


def heard(*data: bytes, limit: int = 8, stop: tuple[str, ...] = ()) -> list[StreamEvent]:
    """Let an answer hear this."""
    answer = Answer(1, limit, asked(stop=stop))
    return [event for one in data for event in answer.on_data(one)]


def test_pieces_become_an_answer() -> None:
    """Each piece counts as a token, and what the server has counted beyond comes last."""
    usage = {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 4}}
    events = heard(chunk("Hel"), chunk("lo"), chunk("", "stop"), msgspec.json.encode(usage), DONE)
    assert events == [
        Started(0, 0, 1),
        Delta("Hel", 1),
        Delta("lo", 1),
        Delta("", 2),
        Finished("stop", Usage(12, 0, 4)),
    ]


def test_a_stop_string_is_found_here() -> None:
    """The server is not told of it, so that it can be named."""
    events = heard(chunk("one t"), chunk("wo three"), stop=("two",))
    assert events[1:] == [Delta("one ", 1), Delta("", 1), Finished("stop", Usage(0, 0, 2), "two")]


def test_a_server_that_counts_more_than_was_asked_is_not_believed() -> None:
    """What is told stays within the limit."""
    usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 99}}
    events = heard(chunk("x"), chunk("y", "length"), msgspec.json.encode(usage), DONE, limit=2)
    assert events[-1] == Finished("length", Usage(1, 0, 2))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"nonsense", "it broke the protocol"),
        (b'{"error": {"message": "secret prompt"}}', "the server reported an error"),
    ],
)
def test_what_is_no_answer_is_a_failure(data: bytes, what: str) -> None:
    """Its own words, which may hold anything, are not passed on."""
    last = heard(chunk("x"), data)[-1]
    assert isinstance(last, Failed)
    assert last.failure.message == f"The server could not complete the answer: {what}."
    assert last.usage == Usage(0, 0, 1)


def test_a_chat_is_written_as_the_dialect_wants_it() -> None:
    """What the client left open is left out; stop strings and the slot are not the server's."""
    sampling = Sampling(temperature=0.5, seed=7)
    path, body = body_of("theirs", asked(sampling=sampling, stop=("x",)), 100)
    assert path == "/v1/chat/completions"
    assert body == {
        "model": "theirs",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 8,
        "temperature": 0.5,
        "seed": 7,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello", "name": "ann"},
        ],
    }


def test_a_text_is_written_as_the_dialect_wants_it() -> None:
    """Without a limit of the client's own the server's is the limit."""
    path, body = body_of("theirs", asked(TextPrompt("Once"), None, ignore_eos=True), 100)
    assert path == "/v1/completions"
    assert (body["prompt"], body["ignore_eos"]) == ("Once", True)
    assert body["max_tokens"] is None


@pytest.mark.parametrize(("wanted", "told"), [(99, 99), (100, None), (10**6, None), (None, None)])
def test_a_limit_that_cannot_be_reached_is_the_servers(
    wanted: int | None, told: int | None
) -> None:
    """Some refuse one that does not fit behind the prompt; for texts nothing said would be 16."""
    _, text = body_of("theirs", asked(TextPrompt("Once"), wanted), 100)
    assert text["max_tokens"] == told
    _, chat = body_of("theirs", asked(CHAT, wanted), 100)
    assert chat.get("max_tokens") == told
    assert ("max_tokens" in chat) == (told is not None)


CALL = Message("assistant", "", calls=(ToolCall("c", "f", "{}"),))


@pytest.mark.parametrize(
    "request_",
    [
        asked(top_logprobs=1),
        asked(counts=True),
        asked(constraint=JsonAny()),
        asked(continuation=Continuation((1,), "d")),
        asked(TokensPrompt((1, 2))),
        asked(msgspec.structs.replace(CHAT, offer=Offer((Tool("f"),)))),
        asked(msgspec.structs.replace(CHAT, continues=True)),
        asked(ChatPrompt((CALL, Message("tool", "2", call_id="c")))),
    ],
)
async def test_what_the_dialect_cannot_say_is_refused(request_: GenerateRequest) -> None:
    """Before anything is sent."""
    runtime = RemoteRuntime(key_of("openai_http"), Served(Place("", 1, ""), "theirs", 100))
    with pytest.raises(RoostError) as caught:
        await runtime.prepare(request_)
    assert caught.value.failure.reason == "unsupported"


@asynccontextmanager
async def answering(head: str, body: bytes) -> AsyncIterator[tuple[RemoteRuntime, list[bytes]]]:
    """Give a runtime at a server that answers so, and what that was sent."""
    sent: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        place = Place("", port, "a-key", "localhost", None, "/far")
        yield RemoteRuntime(key_of("openai_http"), Served(place, "theirs", 100)), sent


async def run(runtime: RemoteRuntime) -> list[StreamEvent]:
    """Ask and read to the end."""
    prepared = await runtime.prepare(asked())
    async with runtime.open(prepared, SlotUse(0, reuse=False)) as events:
        return [event async for event in events]


@pytest.mark.parametrize(
    ("head", "body", "reason"),
    [
        ("429 Too Many", b"", "node_busy"),
        ("503 Busy", b"", "node_busy"),
        ("400 Bad", b"", "bad_request"),
        ("401 No", b"", "runtime_error"),
        ("500 Ouch", b"", "runtime_error"),
        ("200 OK", EVENTS, "runtime_error"),
        ("200 OK", b"", "runtime_error"),
    ],
)
async def test_refusals_and_cuts_are_failures(head: str, body: bytes, reason: str) -> None:
    """A server that is busy is told from one that fails; one that stops in mid-answer failed."""
    async with answering(head, body) as (runtime, sent):
        last = (await run(runtime))[-1]
        assert isinstance(last, Failed)
        assert last.failure.reason == reason
        assert len(sent) == 1, "whoever asks again is not the node"
        assert not runtime.died.is_set(), "the server may be there again for the next one"


async def test_what_a_server_can_take_stays_unknown() -> None:
    """Nothing is measured, reserved or limited of it; only what is asked here is counted."""
    async with answering("200 OK", EVENTS) as (runtime, _):
        assert await runtime.telemetry() == Telemetry(live=0)
        assert runtime.states is None


async def test_the_key_goes_to_the_server() -> None:
    """Under the path that the card says, with the server's own name."""
    end = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    async with answering("200 OK", EVENTS + end) as (runtime, sent):
        assert (await run(runtime))[-1] == Finished("stop", Usage(0, 0, 1))
        head = sent[0].decode()
        assert head.startswith("POST /far/v1/chat/completions HTTP/1.1\r\nHost: localhost:")
        assert "\r\nAuthorization: Bearer a-key\r\n" in head


async def test_bad_slots_and_limits_never_reach_the_server() -> None:
    """Whoever prepared them."""
    runtime = RemoteRuntime(key_of("openai_http"), Served(Place("", 1, ""), "theirs", 100))
    for limit, slot in ((0, 0), (101, 0), (1, 2), (1, -1)):
        prepared = Prepared(asked(), (), limit)
        with pytest.raises(RoostError) as caught:
            async with runtime.open(prepared, SlotUse(slot, reuse=False)):
                pass
        assert caught.value.failure.reason == "bad_request"
