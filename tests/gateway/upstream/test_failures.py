"""Over real sockets: servers that die, lie or fall silent, and clients that leave."""

from __future__ import annotations

import asyncio
import socket

import msgspec
import pytest

from roost.fleet.upstream.pool import PoolSettings
from roost.gateway.loop import run
from roost.gateway.upstream.passage import PassageLimits
from tests.conftest import Eventually, until
from tests.gateway.front.conftest import Client
from tests.gateway.upstream.conftest import (
    AT_ONCE_S,
    BODY,
    DONE,
    EVENT,
    PROBE_S,
    STREAM,
    FakeServer,
    Script,
    answer,
    chat,
    chunk,
    fleet,
    get,
    hang,
    hang_after_event,
    stream,
    whole,
    writing,
)

Writer = asyncio.StreamWriter
ONE = PoolSettings(max_in_flight=1, probe_s=PROBE_S)


async def test_nobody_healthy_is_503() -> None:
    """A server that is not ready gets nothing, and neither does the gateway claim to be."""
    server = FakeServer(healthy=False)
    async with fleet(server) as world:
        for request in (chat(), get("/v1/models")):
            reply = await world.ask(request)
            assert (reply.status, reply.error["code"]) == (503, "no_nodes")
            assert int(reply.headers["retry-after"]) >= 1
        assert (await world.ask(get("/ready"))).status == 503
        assert (await world.ask(get("/health"))).status == 200
        assert server.asked == []


async def test_server_rejoins_by_itself(eventually: Eventually) -> None:
    """A server that stops and starts again leaves and returns without help."""
    server = FakeServer()
    async with fleet(server) as world:
        assert (await world.ask(get("/ready"))).status == 200
        await server.kill()
        await eventually(lambda: world.view.servers[0].health == "unhealthy")
        assert (await world.ask(chat())).status == 503
        await server.start()
        await eventually(lambda: world.view.servers[0].health == "healthy")
        assert (await world.ask(chat())).status == 200


async def test_probe_falls_back_to_models() -> None:
    """A server without /health is asked for its models instead."""
    server = FakeServer(health_status="404 Not Found")
    async with fleet(server) as world:
        assert world.view.servers[0].health == "healthy"
        assert server.probes >= 2


async def test_dead_server_is_replaced_before_the_first_byte() -> None:
    """Whoever was placed on a server that is gone is served by another one."""
    dead, alive = FakeServer(), FakeServer()
    async with fleet(dead, alive, pool=PoolSettings(probe_s=30)) as world:
        await dead.kill()

        def health() -> dict[str, str]:
            return {s.server: s.health for s in world.view.servers}

        # By lot the dead one may be passed over a few times, and not fifty.
        replies = [await world.ask(chat()) for _ in range(4)]
        while health()["s0"] == "healthy" and len(replies) < 50:
            replies.append(await world.ask(chat()))
        assert [r.status for r in replies] == [200] * len(replies)
        assert {r.headers["x-roost-node"] for r in replies} == {"s1"}
        assert health() == {"s0": "unhealthy", "s1": "healthy"}
        assert world.in_flight == 0


async def test_lost_before_the_first_byte_is_tried_elsewhere() -> None:
    """A server that takes the request and dies without a word costs the client nothing."""
    dying, alive = FakeServer(writing(cut=True)), FakeServer()
    async with fleet(dying, alive, pool=PoolSettings(probe_s=30)) as world:
        replies = [await world.ask(chat()) for _ in range(4)]
        assert [r.status for r in replies] == [200] * 4
        assert len(dying.asked) <= 1
        assert world.in_flight == 0


async def test_nobody_left_is_502() -> None:
    """When every server that may be tried has failed, the client hears of it."""
    servers = [FakeServer(writing(cut=True)) for _ in range(4)]
    async with fleet(*servers, pool=PoolSettings(probe_s=30)) as world:
        reply = await world.ask(chat())
        assert (reply.status, reply.error["code"]) == (502, "upstream_error")
        assert sum(len(s.asked) for s in servers) == 3
        assert world.in_flight == 0


async def test_stale_connection_is_replaced_silently() -> None:
    """A kept connection that the server has closed is no failure: the request goes out again."""
    server = FakeServer()
    async with fleet(server, pool=PoolSettings(probe_s=30)) as world:
        client = await world.client()
        assert (await client.ask(chat())).status == 200
        server.script = writing(cut=True)
        asked = len(server.asked)

        async def close_once(writer: Writer, gone: asyncio.Event) -> None:
            server.script = answer
            writer.close()
            await writer.wait_closed()

        server.script = close_once
        assert (await client.ask(chat())).status == 200
        assert len(server.asked) == asked + 2
        assert world.view.servers[0].health == "healthy"


async def test_connections_are_kept() -> None:
    """Requests one after the other share a connection to the server."""
    server = FakeServer(stream)
    async with fleet(server, pool=PoolSettings(probe_s=30)) as world:
        client = await world.client()
        for _ in range(5):
            assert (await client.ask(chat())).status == 200
        assert server.connections - server.probes == 1


async def test_cut_stream_ends_with_one_error_and_no_clean_end() -> None:
    """Whole events come through, then the error, then the connection breaks off."""
    half = b'data: {"choices":[{"del'
    server = FakeServer(writing(STREAM, chunk(EVENT), chunk(EVENT + half), cut=True))
    async with fleet(server, pool=PoolSettings(probe_s=30)) as world:
        client = await world.client()
        await client.send(chat())
        assert (await client.head())[0] == 200
        body = await read_broken(client)
        events = body.split(b"\n\n")
        assert events[:2] == [EVENT.strip()] * 2
        error = msgspec.json.decode(events[2].removeprefix(b"data: "))["error"]
        assert error["code"] == "upstream_error"
        assert events[3:] == [b""]
        assert world.in_flight == 0
        assert world.view.servers[0].health == "unhealthy"


async def read_broken(client: Client) -> bytes:
    """Read chunks until the connection ends without the last one."""
    body = b""
    while True:
        try:
            piece = await asyncio.wait_for(client.chunk(), 5)
        except asyncio.IncompleteReadError:
            return body
        assert piece != b"", "a clean end"
        body += piece


async def test_anthropic_error_event_has_a_type() -> None:
    """Anthropic's clients see the error, because it has an event line."""
    server = FakeServer(writing(STREAM, chunk(EVENT), cut=True))
    async with fleet(server, pool=PoolSettings(probe_s=30)) as world:
        client = await world.client()
        await client.send(chat(path="/v1/messages"))
        await client.head()
        body = await read_broken(client)
        assert b'\n\nevent: error\ndata: {"type":"error","error":{"type":"api_error"' in body


async def test_responses_error_event_has_a_type() -> None:
    """The Responses API has an error event of its own, too."""
    server = FakeServer(writing(STREAM, chunk(EVENT), cut=True))
    async with fleet(server, pool=PoolSettings(probe_s=30)) as world:
        client = await world.client()
        await client.send(chat(path="/v1/responses"))
        await client.head()
        body = await read_broken(client)
        assert b'event: error\ndata: {"type":"error","code":"upstream_error"' in body


async def test_cut_after_done_is_a_clean_end() -> None:
    """When the event that ends an answer is out, a lost connection changes nothing."""
    server = FakeServer(writing(STREAM, chunk(EVENT), chunk(DONE), cut=True))
    async with fleet(server, pool=PoolSettings(probe_s=30)) as world:
        assert (await world.ask(chat())).body == EVENT + DONE


@pytest.mark.parametrize(
    "pieces",
    [
        (STREAM, chunk(b"")),
        (STREAM,),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",),
        (whole()[:-5],),
        (whole().replace(b"200 OK", b"200 OK\r\nTransfer-Encoding: chunked"),),
        (b"HTTP/1.1 200 OK\nbroken\n\n",),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,),
        (b"garbage\r\n\r\n",),
    ],
)
async def test_answers_that_are_none_are_502(pieces: tuple[bytes, ...]) -> None:
    """An empty stream, a cut body and broken HTTP have a real status and a JSON body."""
    server = FakeServer(writing(*pieces, cut=True))
    async with fleet(server, pool=PoolSettings(probe_s=30)) as world:
        reply = await world.ask(chat())
        assert (reply.status, reply.error["code"]) == (502, "upstream_error")
        assert world.in_flight == 0


async def test_interim_answers_are_passed_over() -> None:
    """A 100 or 103 before the answer is not the answer."""
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    async with fleet(FakeServer(writing(interim, whole()))) as world:
        assert (await world.ask(chat())).body == BODY


async def test_body_that_ends_with_the_connection() -> None:
    """A server of HTTP/1.0 manners is understood; a stream has to show its own end."""
    head = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"
    async with fleet(FakeServer(writing(head + BODY, cut=True))) as world:
        assert (await world.ask(chat())).body == BODY
    head = head.replace(b"application/json", b"text/event-stream")
    async with fleet(FakeServer(writing(head + EVENT + DONE, cut=True))) as world:
        assert (await world.ask(chat())).body == EVENT + DONE
    async with fleet(FakeServer(writing(head + EVENT, cut=True))) as world:
        client = await world.client()
        await client.send(chat())
        await client.head()
        assert b"upstream_error" in await read_broken(client)


@pytest.mark.parametrize("script", [hang, hang_after_event])
async def test_leaving_client_stops_the_server(script: Script, eventually: Eventually) -> None:
    """A client that leaves closes the connection to the server at once and frees the place."""
    server = FakeServer(script)
    async with fleet(server, pool=ONE) as world:
        client = await world.client()
        await client.send(chat())
        await eventually(lambda: world.in_flight == 1 and len(server.asked) == 1)
        client.close()
        await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)
        await eventually(lambda: world.in_flight == 0)
        server.script = answer
        assert (await world.ask(chat())).status == 200
        assert world.view.servers[0].health == "healthy"


async def test_neighbour_is_not_disturbed(eventually: Eventually) -> None:
    """A client that leaves costs its neighbour nothing."""
    server = FakeServer(hang_after_event)
    async with fleet(server) as world:
        staying, leaving = await world.client(), await world.client()
        await leaving.send(chat())
        await eventually(lambda: len(server.asked) == 1)

        async def slow(writer: Writer, gone: asyncio.Event) -> None:
            writer.write(STREAM + chunk(EVENT))
            await server.gone.wait()
            writer.write(chunk(DONE) + chunk(b""))

        server.script = slow
        await staying.send(chat())
        await eventually(lambda: world.in_flight == 2)
        leaving.close()
        assert (await staying.reply()).body == EVENT + DONE


@pytest.mark.parametrize("script", [hang, hang_after_event])
async def test_silent_server_is_given_up(script: Script) -> None:
    """A server without progress is cut after its time, and not asked to do the work twice."""
    first_byte_s = 0.1 if script is hang else 60.0
    limits = PassageLimits(first_byte_s, idle_s=0.1, commit_after_s=60.0)
    servers = FakeServer(script), FakeServer(script)
    async with fleet(*servers, passage=limits) as world:
        client = await world.client()
        await client.send(chat())
        status, headers = await client.head()
        assert status == (502 if script is hang else 200)
        length = int(headers.get("content-length", 0))
        rest = await (client.reader.readexactly(length) if length else read_broken(client))
        assert b"stopped answering" in rest
        assert len(servers[0].asked) + len(servers[1].asked) == 1
        assert world.in_flight == 0


async def test_status_goes_out_before_patience_ends() -> None:
    """A stream whose first event takes long shows its status after a while."""

    async def late(writer: Writer, gone: asyncio.Event) -> None:
        writer.write(STREAM)
        await gone.wait()

    limits = PassageLimits(first_byte_s=5, idle_s=5, commit_after_s=0.05)
    async with fleet(FakeServer(late), passage=limits) as world:
        client = await world.client()
        await client.send(chat())
        assert (await client.head())[0] == 200


async def test_large_body_passes_while_it_comes() -> None:
    """A body beyond what is held streams through; a cut one is visibly cut."""
    body = b"x" * 3_000_000
    async with fleet(FakeServer(writing(whole(body)))) as world:
        assert (await world.ask(chat())).body == body
    async with fleet(FakeServer(writing(whole(body)[:-5], cut=True))) as world:
        client = await world.client()
        await client.send(chat())
        _, headers = await client.head()
        assert int(headers["content-length"]) == 3_000_000
        assert len(await client.closed()) == 3_000_000 - 5


async def test_large_request_passes() -> None:
    """A body of some megabytes reaches the server whole."""
    server = FakeServer()
    async with fleet(server) as world:
        body = bytes(range(256)) * 20_000
        assert (await world.ask(chat(body))).status == 200
        assert server.asked[0].body == body


async def test_slow_reader_slows_only_its_server(eventually: Eventually) -> None:
    """Back-pressure reaches the server: what is in between stays small."""
    sent = 0

    async def flood(writer: Writer, gone: asyncio.Event) -> None:
        nonlocal sent
        writer.write(STREAM)
        while not gone.is_set():
            writer.write(chunk(b"data: " + b"x" * 10_000 + b"\n\n"))
            sent += 10_000
            await writer.drain()

    async with fleet(FakeServer(flood)) as world:
        client = await world.client()
        client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await client.send(chat())
        await client.head()
        before = -1

        def stalled() -> bool:
            nonlocal before
            same, before = sent == before, sent
            return same

        await eventually(stalled)
        assert sent < 20_000_000
        other = await world.client()
        assert (await other.ask(get("/health"))).status == 200


async def test_drain_lets_streams_end() -> None:
    """Closing with a grace lets a running answer end and refuses new ones."""
    release = asyncio.Event()

    async def slow(writer: Writer, gone: asyncio.Event) -> None:
        writer.write(STREAM + chunk(EVENT))
        await release.wait()
        writer.write(chunk(DONE) + chunk(b""))

    server = FakeServer(slow)
    async with fleet(server) as world:
        client = await world.client()
        await client.send(chat())
        await client.head()
        closing = asyncio.ensure_future(world.gateway.close(5))
        await asyncio.sleep(0)
        with pytest.raises(OSError, match=r".*"):
            await world.client()
        release.set()
        assert await client.chunk() == EVENT
        assert await client.chunk() == DONE
        assert await client.chunk() == b""
        await closing


@pytest.mark.slow
async def test_aborts_leak_nothing(eventually: Eventually) -> None:
    """Clients that leave at every moment leave no place taken and no connection open."""
    server = FakeServer(stream)
    pool = PoolSettings(max_in_flight=100, probe_s=30)
    async with fleet(server, pool=pool) as world:
        for turn in range(120):
            client = await world.client()
            request = chat()
            await client.send(request[: len(request) if turn % 4 else turn])
            for _ in range(turn % 7):
                await asyncio.sleep(0)
            client.writer.transport.abort()
        await eventually(lambda: world.in_flight == 0)
        assert world.gateway.front is not None
        await eventually(lambda: world.gateway.front is not None and not world.gateway.front.busy)
        assert (await world.ask(chat())).body == EVENT * 3 + DONE


async def _on_any_loop() -> None:
    server = FakeServer(stream)
    async with fleet(server) as world:
        client = await world.client()
        for _ in range(3):
            assert (await client.ask(chat())).body == EVENT * 3 + DONE
        server.script = hang_after_event
        await client.send(chat())
        await client.head()
        client.close()
        await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)
        await until(lambda: world.in_flight == 0)
        await server.kill()
        await until(lambda: world.view.servers[0].health == "unhealthy")
        assert (await world.ask(chat())).status == 503


@pytest.mark.slow
def test_same_on_uvloop() -> None:
    """The loop used in production behaves like the one under test."""
    run(_on_any_loop())
