"""Turns of named conversations on workers of system 1: as they were, and in every bad mood."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import msgspec
import pytest

from roost.fleet.nodes.handover import HandoverSettings
from roost.fleet.streams.relay import RelaySettings
from roost.gateway.conversations.infer import InferSettings
from roost.gateway.foreign.address import read_nets
from roost.gateway.foreign.guests import GuestSettings
from roost.gateway.foreign.report import OfferSettings
from roost.gateway.foreign.translator import ForeignSettings
from roost.store.conversations.journal import Journal, JournalSettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Reply, Stage, ask, staged
from tests.gateway.fake_worker import (
    Asked,
    FakeWorker,
    Fields,
    chunked,
    polite,
    token,
    whole,
    working,
)
from tests.gateway.test_fleet_gateway import idle
from tests.gateway.test_lines import lines_of

PREFILL, DECODE = "/worker/prefill", "/worker/decode"


def opened(**foreign: object) -> GuestSettings:
    """Take workers of this machine, with these settings."""
    settings = msgspec.structs.replace(ForeignSettings(), **foreign)
    return GuestSettings(nets=read_nets(["127.0.0.0/8"]), foreign=settings)


@asynccontextmanager
async def fleet(
    *names: str, guests: GuestSettings | None = None, **beat: object
) -> AsyncIterator[tuple[Stage, list[FakeWorker]]]:
    """A gateway that keeps what is said, and workers that have joined it."""
    settings = msgspec.structs.replace(
        SETTINGS,
        guests=guests or opened(),
        handover=HandoverSettings(look_s=0.01),
        infer=InferSettings(relay=RelaySettings(sealed=True, keepalive_s=0.2)),
    )
    async with AsyncExitStack() as stack:
        journal = Journal(None, JournalSettings())
        stage = await stack.enter_async_context(staged(settings, journal=journal))
        workers = [await stack.enter_async_context(working(name)) for name in names]
        for worker in workers:
            await join(stage, worker, **beat)
        yield stage, workers


async def join(stage: Stage, worker: FakeWorker, **beat: object) -> None:
    """Let a worker announce itself, and wait until its models are on offer."""
    path = "/coordinator/health/heartbeat"
    assert (await ask(stage.port, "POST", path, worker.beat(**beat))).status == 200

    def offers() -> bool:
        nodes = stage.gateway.mind.coordinator.fleet()
        return any(node.id == worker.name and node.max_in_flight for node in nodes)

    await until(offers, what=f"{worker.name} is a node")


def gone(stage: Stage, worker: FakeWorker) -> bool:
    """Whether the gateway has no link to a worker."""
    return worker.name not in stage.gateway.mind.links


async def say(stage: Stage, prompt: str, talk: str = "c", **more: object) -> Reply:
    """Send a turn."""
    headers = {"x_roost_affinity": str(more.pop("affinity"))} if "affinity" in more else {}
    body = {"conversation_id": talk, "prompt": prompt, "model": "m", "max_tokens": 8} | more
    return await ask(stage.port, "POST", "/coordinator/infer", body, **headers)


def text(reply: Reply) -> str:
    """What was said."""
    return "".join(json.loads(one).get("token", "") for one in reply.events())


def last(reply: Reply) -> Fields:
    """The last event."""
    event = json.loads(reply.events()[-1])
    assert isinstance(event, dict)
    return event


async def test_a_conversation_goes_on_in_its_session() -> None:
    """Create, then continue, each with its own words alone; the worker's counts are told."""
    async with fleet("w-a") as (stage, (worker,)):
        first = await say(stage, "hi")
        assert (first.status, text(first)) == (200, "Hello")
        assert first.headers["x-roost-node"] == "w-a"
        assert last(first)["reason"] == "stop"
        again = await say(stage, "more")
        assert text(again) == "Hello"
        one, two = worker.calls(PREFILL)
        assert uuid.UUID(one.session).version == 4, "one of its kind, wherever it was made"
        assert one.body == {
            "session_id": one.session,
            "prompt": "hi",
            "model": "m",
            "max_tokens": 8,
            "mode": "create",
        }
        assert two.body == one.body | {"prompt": "more", "mode": "continue"}
        assert worker.calls(DECODE)[0].body == {"session_id": one.session, "max_tokens": 8}
        assert again.headers["x-roost-placement"] == "warm"
        assert again.headers["x-roost-cached-tokens"] == "10"
        assert "authorization" not in one.headers


async def test_a_chunk_border_may_be_anywhere() -> None:
    """Not a letter is lost, however the network cuts an answer up; comments are no tokens."""
    stream = b": alive\n\n" + token("Grüße ", 0) + b": alive\n\n" + token("an\ndich", 1)

    def crumbling(worker: FakeWorker, asked: Asked) -> bytes | None:
        if asked.path == DECODE:
            return chunked(*(stream[at : at + 1] for at in range(len(stream))))
        return polite(worker, asked)

    async with fleet("w-a") as (stage, (worker,)):
        worker.mood = crumbling
        assert text(await say(stage, "hi")) == "Grüße an\ndich"


async def test_a_gap_in_the_numbers_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer ends in an error, the session is removed, and the gap is in the log.

    So is a worker that does not remove it when it is told to.
    """
    told: list[str] = []

    def holey(worker: FakeWorker, asked: Asked) -> bytes | None:
        if asked.method == "DELETE" and not told:
            told.append(asked.session)
            worker.sessions.clear()
            return whole(500)
        gap = chunked(token("a", 0), token("c", 2))
        return gap if asked.path == DECODE else polite(worker, asked)

    async with fleet("w-a") as (stage, (worker,)):
        worker.mood = holey
        reply = await say(stage, "hi")
        assert text(reply) == "a"
        assert last(reply)["error"] == "Worker decode failed"
        await until(lambda: not worker.sessions, what="the session is removed")
        await until(partial(idle, stage), what="its place is free")
    gap, kept = lines_of(capsys, "stream_sequence_gap", "worker_session_not_removed")
    assert (gap["wanted"], gap["got"], gap["session"]) == (1, 2, told[0])
    assert gap["request"] == reply.headers["x-roost-request-id"]
    assert (kept["session"], kept["status"], kept["worker"]) == (told[0], 500, "w-a")


def deaf(_worker: FakeWorker, asked: Asked) -> bytes | None:
    """Live, and close the connection of every turn without a word."""
    return whole(200) if asked.path == "/worker/health" else None


async def test_a_create_is_tried_on_others_under_a_fresh_name() -> None:
    """At most twice more; each time elsewhere and as another session; then it is 502."""
    async with fleet("a", "b", "c", "d") as (stage, workers):
        for worker in workers:
            worker.mood = deaf
        reply = await say(stage, "hi")
        assert reply.status == 502
        tried = reply.json()["tried"]
        assert isinstance(tried, list)
        assert len(tried) == len(set(tried)) == 3
        asked = [worker.calls(PREFILL) for worker in workers]
        assert sorted(map(len, asked)) == [0, 1, 1, 1]
        assert len({one.session for calls in asked for one in calls}) == 3
        (left,) = [worker for worker in workers if not worker.calls(PREFILL)]
        left.mood = polite
        assert text(await say(stage, "hi")) == "Hello"


async def test_what_a_worker_has_no_room_for_goes_elsewhere() -> None:
    """503 of a worker is no failure of it, and none for the client."""

    def full(worker: FakeWorker, asked: Asked) -> bytes | None:
        denial = {"error": "full", "reason": "max_sessions_exceeded"}
        return whole(503, denial) if asked.path == PREFILL else polite(worker, asked)

    async with fleet("a", "b") as (stage, (one, two)):
        one.mood = full
        for talk in "xyz":
            assert text(await say(stage, "hi", talk)) == "Hello"
        assert len(two.calls(DECODE)) == 3
        assert not gone(stage, one)


async def test_a_worker_that_dies_in_its_answer_is_an_explicit_error() -> None:
    """Then the next turn is computed anew elsewhere, from all that was said, and says so."""

    def endless(worker: FakeWorker, asked: Asked) -> bytes | None:
        unfinished = chunked(token("Hel", 0), ends=False)
        return unfinished if asked.path == DECODE else polite(worker, asked)

    async with fleet("w-a") as (stage, (worker,)):
        worker.mood = endless
        client = await stage.client()
        body = {"conversation_id": "c", "prompt": "hi", "model": "m", "max_tokens": 8}
        client.send("POST", "/coordinator/infer", body)
        await client.head()
        worker.die()
        cut = await client.rest()
        assert text(cut) == "Hel"
        assert last(cut)["error"] == "Worker connection lost during decode"
        assert last(cut)["reason"] == "error"
        await until(lambda: gone(stage, worker), what="the worker is gone")
        refused = await say(stage, "more", affinity="require")
        assert (refused.status, refused.json()["reason"]) == (409, "session_gone")
        async with working("w-b") as other:
            await join(stage, other)
            reply = await say(stage, "more")
            assert text(reply) == "Hello"
            assert reply.headers["x-roost-placement"].startswith("lost")
            (made,) = other.calls(PREFILL)
            assert made.body["mode"] == "create"
            told = "[RECENT MESSAGES]\nUser: hi\nAssistant: Hel\n\nmore"
            assert made.body["prompt"] == told


async def test_a_worker_that_forgot_is_told_everything_again() -> None:
    """Unless the session is required: then it is 409, and the truth."""
    async with fleet("w-a") as (stage, (worker,)):
        await say(stage, "hi")
        worker.sessions.clear()
        refused = await say(stage, "more", affinity="require")
        assert (refused.status, refused.json()["reason"]) == (409, "session_gone")
        again = await say(stage, "again")
        assert text(again) == "Hello"
        assert again.headers["x-roost-placement"].startswith("lost")
        modes = [one.body["mode"] for one in worker.calls(PREFILL)]
        assert modes == ["create", "continue", "create"]


async def test_a_client_that_leaves_is_heard_at_the_worker() -> None:
    """Its connection is closed and its session removed, so that nothing runs for nobody."""

    def endless(worker: FakeWorker, asked: Asked) -> bytes | None:
        unfinished = chunked(token("Hel", 0), ends=False)
        return unfinished if asked.path == DECODE else polite(worker, asked)

    async with fleet("w-a") as (stage, (worker,)):
        worker.mood = endless
        client = await stage.client()
        body = {"conversation_id": "c", "prompt": "hi", "model": "m", "max_tokens": 8}
        client.send("POST", "/coordinator/infer", body)
        await client.head()
        client.close()
        await until(lambda: worker.ended == 1, what="the connection is closed")
        await until(lambda: not worker.sessions, what="the session is removed")
        coordinator = stage.gateway.mind.coordinator
        await until(lambda: coordinator.statistics().leases == 0, what="its place is free")


async def test_a_worker_that_hangs_is_given_up() -> None:
    """No call is without a limit: the turn ends, and its conversation is not locked."""

    def hanging(worker: FakeWorker, asked: Asked) -> bytes | None:
        stuck = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n"
        return stuck if asked.path == PREFILL else polite(worker, asked)

    async with fleet("w-a", guests=opened(prefill_s=0.05)) as (stage, (worker,)):
        worker.mood = hanging
        assert (await say(stage, "hi")).status == 502
        assert worker.calls(PREFILL)


EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        EVENTS + b"\r\n" + token("Hel", 0),
        EVENTS + b"content-length: 900\r\n\r\n" + token("Hel", 0),
        whole(200, {"token": "Hel", "seq": 0}),
        chunked(b"data: " + b"x" * 70_000),
        chunked(b"data: <html>\n\n"),
        b"nonsense\r\n\r\n",
        whole(500, "x" * 70_000),
        whole(404, {"error": "gone", "reason": "session_gone"}),
    ],
    ids=["unframed", "short", "no events", "huge", "no JSON", "no HTTP", "long error", "gone"],
)
async def test_what_is_no_whole_answer_is_an_error(answer: bytes) -> None:
    """Whatever a worker makes of it: a client never takes a part for the whole."""

    def strange(worker: FakeWorker, asked: Asked) -> bytes | None:
        return answer if asked.path == DECODE else polite(worker, asked)

    async with fleet("w-a") as (stage, (worker,)):
        worker.mood = strange
        reply = await say(stage, "hi")
        if reply.status == 200:
            assert last(reply)["reason"] == "error"
        else:
            assert reply.status == 502


async def test_nobody_is_sent_anywhere_by_an_answer() -> None:
    """A redirect is a failure: the gateway dials what it has checked, and nothing else."""
    async with working("elsewhere") as other:
        address = f"location: http://127.0.0.1:{other.port}{PREFILL}"

        def redirecting(worker: FakeWorker, asked: Asked) -> bytes | None:
            moved = whole(307, None, address)
            return moved if asked.path == PREFILL else polite(worker, asked)

        async with fleet("w-a") as (stage, (worker,)):
            worker.mood = redirecting
            assert (await say(stage, "hi")).status == 502
            assert other.asked == []


async def test_a_worker_is_shown_the_key_it_named() -> None:
    """Every call has it; another key later means another process, with nothing of before."""
    async with fleet("w-a", key="k-1") as (stage, (worker,)):
        await say(stage, "hi")
        assert {one.headers["authorization"] for one in worker.asked} == {"Bearer k-1"}
        await join(stage, worker, key="k-2")
        await until(
            lambda: worker.asked[-1].headers["authorization"] == "Bearer k-2",
            what="the new key is used",
        )


@pytest.mark.parametrize("sampling", [True, False])
async def test_wishes_go_to_workers_that_understand_them(*, sampling: bool) -> None:
    """Whoever does not say so gets no turn with a temperature: it would not be heeded."""
    async with fleet("w-a", sampling=sampling) as (stage, (worker,)):
        reply = await say(stage, "hi", temperature=0.5, stop=["x"])
        if sampling:
            (decode,) = worker.calls(DECODE)
            assert (decode.body["temperature"], decode.body["stop"]) == (0.5, ["x"])
        else:
            assert (reply.status, reply.json()["reason"]) == (400, "unsupported")
            assert worker.calls(PREFILL) == []


async def test_other_dialects_do_not_reach_such_workers() -> None:
    """What a worker could only pretend to do is refused, and its model is not listed for them."""
    async with fleet("w-a") as (stage, _):
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        refused = await ask(stage.port, "POST", "/v1/chat/completions", body)
        assert refused.status == 400
        assert "/coordinator/infer" in str(refused.json()["error"])
        assert (await ask(stage.port, "GET", "/v1/models")).json()["data"] == []
        assert (await ask(stage.port, "GET", "/v1/models/m")).status == 404
        assert (await ask(stage.port, "GET", "/ready")).status == 200


async def test_a_worker_that_names_no_model_serves_the_one_of_the_settings() -> None:
    """The heartbeat of system 1 names none, so an operator says which it is."""
    guests = opened(offer=OfferSettings(model="m", slots=3))
    async with fleet("w-a", guests=guests, models=[]) as (stage, (worker,)):
        assert text(await say(stage, "hi")) == "Hello"
        assert worker.calls(PREFILL)[0].body["model"] == "m"


async def test_a_worker_that_drains_gets_no_new_work() -> None:
    """Its heartbeat says so, and the next one may say otherwise."""
    async with fleet("w-a", health={"alive": True, "draining": True}) as (stage, (worker,)):
        assert (await say(stage, "hi")).status == 503
        await join(stage, worker)
        assert text(await say(stage, "hi")) == "Hello"


async def test_conversations_leave_a_worker_that_drains() -> None:
    """They are prefilled elsewhere from what was said, and nothing of them is left behind."""
    async with fleet("a", "b") as (stage, workers):
        first = await say(stage, "hi")
        home = next(one for one in workers if one.name == first.headers["x-roost-node"])
        (other,) = [one for one in workers if one is not home]
        await join(stage, home, health={"alive": True, "draining": True})
        await until(lambda: bool(other.calls(PREFILL)), what="its past is prefilled elsewhere")
        assert (
            other.calls(PREFILL)[0].body["prompt"]
            == "[RECENT MESSAGES]\nUser: hi\nAssistant: Hello"
        )
        await until(lambda: not home.sessions, what="nothing is left at home")
        again = await say(stage, "more")
        assert text(again) == "Hello"
        assert again.headers["x-roost-placement"].startswith("moved")
        assert again.headers["x-roost-cached-tokens"] == "10"
        assert (other.calls(PREFILL)[-1].body["prompt"], len(other.calls(DECODE))) == ("more", 1)


async def test_a_session_that_is_full_is_begun_anew_from_less() -> None:
    """The worker says so, the past is made shorter, and the client hears of a move alone."""

    def small(worker: FakeWorker, asked: Asked) -> bytes | None:
        if asked.path == PREFILL and asked.body["mode"] == "continue":
            return whole(409, {"error": "full", "reason": "session_full"})
        if asked.path == PREFILL and len(str(asked.body["prompt"])) > 700:
            return whole(413, {"error": "long", "reason": "prompt_too_long"})
        return polite(worker, asked)

    async with fleet("w-a", sampling=True) as (stage, (worker,)):
        for words in ("My cat is called Tom. " * 20, "I live in Bergen. " * 8, "It rains. " * 8):
            assert text(await say(stage, words)) == "Hello"
        worker.mood = small
        reply = await say(stage, "Where do I live?")
        assert (reply.status, text(reply)) == (200, "Hello")
        assert reply.headers["x-roost-placement"] == "moved(compacted)"
        told = str(worker.calls(PREFILL)[-1].body["prompt"])
        assert told.endswith("Where do I live?")
        assert "It rains." in told
