"""The pump: a link over a real pair, from greeting to every way it can end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from roost.core.ids import ModelId, NodeId, RequestId, StreamId, TenantId
from roost.core.request import GenerateRequest, TextPrompt
from roost.core.snapshots import NodeStatus
from roost.errors import Failure, RoostError
from roost.wire.codec import encode
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import GatewayEnd, NodeEnd
from roost.wire.link_tables import Close
from roost.wire.memory import GatewayConnection, NodeConnection, memory_pair
from roost.wire.messages import (
    VERSION,
    FromGateway,
    FromNode,
    Goodbye,
    Hello,
    Open,
    Refused,
    Released,
    Status,
    Welcome,
)
from roost.wire.pump import Pump, PumpSettings

HELLO = Hello(VERSION, NodeId("n"), "n", "i", "roost")
BYE = Failure("draining", "shutting down")
STATUS = Status(0, NodeStatus((), (), 0, 4))
QUICK = LinkSettings(ping_s=0.01, dead_s=1.0)
CALM = LinkSettings()
Eventually = Callable[..., Awaitable[None]]


def _node_pump(
    connection: NodeConnection, settings: LinkSettings, heard: list[FromGateway]
) -> Pump[FromNode, FromGateway]:
    async def deliver(message: FromGateway) -> None:
        heard.append(message)

    end = NodeEnd(HELLO, settings, time.monotonic())
    pump = Pump(end, connection, deliver, PumpSettings(queue_max=8, flush_s=0.05), time.monotonic)
    pump.start_with(end.start())
    return pump


def _gateway_pump(
    connection: GatewayConnection, settings: LinkSettings, heard: list[FromNode]
) -> Pump[FromGateway, FromNode]:
    async def deliver(message: FromNode) -> None:
        heard.append(message)

    end = GatewayEnd("g", settings, time.monotonic())
    return Pump(end, connection, deliver, PumpSettings(queue_max=8, flush_s=0.05), time.monotonic)


@pytest.mark.slow
async def test_two_pumps_make_a_link(eventually: Eventually) -> None:
    """They greet, stay alive past `dead_s` on pings alone, and part with the reason given."""
    near, far = memory_pair()
    to_node: list[FromGateway] = []
    to_gateway: list[FromNode] = []
    node, gateway = _node_pump(near, QUICK, to_node), _gateway_pump(far, QUICK, to_gateway)
    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(node.run()), group.create_task(gateway.run())]
        await eventually(lambda: bool(to_node))
        node.post(STATUS)
        until = time.monotonic() + 1.5 * QUICK.dead_s
        await eventually(lambda: time.monotonic() > until)
        assert not any(task.done() for task in ends)
        gateway.post(Goodbye(BYE, again=False))
    assert [task.result() for task in ends] == [Close(BYE, again=False)] * 2
    assert to_node == [Welcome(VERSION, "g", 0.01)]
    assert to_gateway == [HELLO, STATUS]


async def test_every_message_is_a_sign_of_life(eventually: Eventually) -> None:
    """Answers to pings are heard like everything else, and delivered to nobody."""
    near, far = memory_pair()
    signs: list[float] = []
    delivered: list[FromNode] = []

    async def deliver(message: FromNode) -> None:
        delivered.append(message)

    end = GatewayEnd("g", QUICK, time.monotonic())
    settings = PumpSettings(flush_s=0.05)
    node = _node_pump(near, msgspec.structs.replace(QUICK, ping_s=60.0), [])
    gateway: Pump[FromGateway, FromNode] = Pump(
        end, far, deliver, settings, time.monotonic, lambda: signs.append(time.monotonic())
    )
    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(node.run()), group.create_task(gateway.run())]
        await eventually(lambda: len(signs) > 4)
        assert delivered == [HELLO]
        assert not any(task.done() for task in ends)
        gateway.post(Goodbye(BYE, again=False))


@pytest.mark.parametrize(
    ("text", "reason"), [("x" * 5000, "body_too_large"), ("\ud800", "bad_request")]
)
async def test_what_cannot_be_framed_costs_its_sender_only(
    text: str, reason: str, eventually: Eventually
) -> None:
    """Too large or not encodable: refused where it is said, as if it had never been said."""
    near, far = memory_pair()
    heard: list[FromGateway] = []

    async def deliver(_message: FromNode) -> None:
        """Nothing here listens to the node."""

    end = GatewayEnd("g", CALM, time.monotonic())
    settings = PumpSettings(flush_s=0.05, message_max_bytes=4096)
    node = _node_pump(near, CALM, heard)
    gateway: Pump[FromGateway, FromNode] = Pump(end, far, deliver, settings, time.monotonic)
    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(node.run()), group.create_task(gateway.run())]
        await eventually(lambda: bool(heard))
        with pytest.raises(RoostError) as refused:
            gateway.post(_open(1, text))
        assert refused.value.failure.reason == reason
        assert end.statistics(time.monotonic()).streams == 0
        gateway.post(_open(1, "short"))
        await eventually(lambda: heard[1:] == [_open(1, "short")])
        assert not any(task.done() for task in ends)
        gateway.post(Goodbye(BYE, again=False))


class Frames:
    """A connection that keeps the bytes it is given, and never hears anything."""

    def __init__(self) -> None:
        self.sent: list[bytes | None] = []
        self._ended = asyncio.Event()

    async def send(self, message: FromNode, frame: bytes | None = None) -> None:
        """Keep the frame."""
        self.sent.append(frame)

    async def receive(self) -> FromGateway | None:
        """Wait for the close."""
        await self._ended.wait()
        return None

    async def close(self) -> None:
        """End."""
        self._ended.set()


async def test_what_is_posted_is_framed_once(eventually: Eventually) -> None:
    """A connection gets the bytes that were made to see whether the message fits."""
    frames, goodbye = Frames(), Goodbye(BYE, again=False)
    pump = _node_pump(frames, CALM, [])
    async with asyncio.TaskGroup() as group:
        group.create_task(pump.run())
        await eventually(lambda: len(frames.sent) == 1)
        pump.post(goodbye)
    assert frames.sent == [None, encode(goodbye)]


def _open(stream: int, text: str) -> Open:
    request = GenerateRequest(ModelId("m"), TextPrompt(text))
    return Open(StreamId(stream), RequestId("r"), TenantId("t"), request, credit=1)


async def test_a_lost_connection_ends_the_run() -> None:
    """The peer closes without a word: the link says so, and dialling again makes sense."""
    near, far = memory_pair()
    pump = _node_pump(near, CALM, [])
    async with asyncio.TaskGroup() as group:
        running = group.create_task(pump.run())
        assert await far.receive() == HELLO
        await far.close()
    assert running.result() == Close(Failure("node_lost", "the connection was lost"))


async def test_a_silent_peer_is_given_up() -> None:
    """A peer that neither reads nor writes is dropped after the greeting time."""
    near, far = memory_pair()
    close = await _node_pump(near, LinkSettings(greeting_s=0.1), []).run()
    assert close.failure.reason == "node_lost"
    assert await far.receive() == HELLO
    assert await far.receive() is None


async def test_a_peer_that_does_not_read_fills_a_bounded_queue(eventually: Eventually) -> None:
    """The queue's limit closes the link; it never grows past it."""
    near, far = memory_pair(messages_max=1)
    heard: list[FromGateway] = []
    pump = _node_pump(near, CALM, heard)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(pump.run())
        await far.send(Welcome(VERSION, "g", 1.0))
        await eventually(lambda: bool(heard))
        for _ in range(20):
            pump.post(Released(StreamId(1), "done"))
    assert running.result().failure.reason == "node_lost"
    assert "wait for a peer that stalls" in running.result().failure.message


async def test_a_cancelled_run_closes_its_connection() -> None:
    """Whoever stops a pump leaves no open connection behind."""
    near, far = memory_pair()
    pump = _node_pump(near, CALM, [])
    async with asyncio.TaskGroup() as group:
        running = group.create_task(pump.run())
        assert await far.receive() == HELLO
        running.cancel()
    assert await far.receive() is None


def _near_gateway(
    connection: GatewayConnection, deliver: Callable[[FromNode], None], free: list[bool]
) -> Pump[FromGateway, FromNode]:
    end = GatewayEnd("g", CALM, time.monotonic())
    settings = PumpSettings(flush_s=0.05)
    pump: Pump[FromGateway, FromNode] = Pump(end, connection, deliver, settings, time.monotonic)
    pump.hear_at_once(lambda: free[0])
    return pump


async def test_who_is_free_hears_within_the_call(eventually: Eventually) -> None:
    """No task runs in between; what comes while nobody is free is heard later, in its order."""
    near, far = memory_pair()
    heard: list[FromNode] = []
    free = [True]
    node, gateway = _node_pump(near, CALM, []), _near_gateway(far, heard.append, free)
    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(node.run()), group.create_task(gateway.run())]
        await eventually(lambda: heard == [HELLO])
        reports = [msgspec.structs.replace(STATUS, seq=number) for number in range(4)]
        node.post(reports[0])
        assert heard == [HELLO, reports[0]]
        free[0] = False
        node.post(reports[1])
        free[0] = True
        node.post(reports[2])
        assert heard == [HELLO, reports[0]], "what waits is not overtaken"
        await eventually(lambda: heard == [HELLO, *reports[:3]])
        node.post(reports[3])
        assert heard[-1] == reports[3]
        gateway.post(Goodbye(BYE, again=False))
    assert [task.result() for task in ends] == [Close(BYE, again=False)] * 2


async def test_an_answer_within_the_call_is_heard_after_it(eventually: Eventually) -> None:
    """Who speaks while it hears is answered once it has heard, by whoever hears as it speaks."""
    near, far = memory_pair()
    told: list[str] = []
    node_end = NodeEnd(HELLO, CALM, time.monotonic())

    def on_node(message: FromGateway) -> None:
        if isinstance(message, Open):
            told.append("opened")
            node.post(Refused(message.stream, BYE))
            node.post(Released(message.stream, "waiting"))
            told.append("refused")

    def on_gateway(message: FromNode) -> None:
        if isinstance(message, Status):
            gateway.post(_open(1, "x"))
            told.append("asked")
        elif not isinstance(message, Hello):
            told.append(type(message).__name__)

    node: Pump[FromNode, FromGateway] = Pump(
        node_end, near, on_node, PumpSettings(), time.monotonic
    )
    node.start_with(node_end.start())
    node.hear_at_once(lambda: True)
    gateway = _near_gateway(far, on_gateway, [True])
    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(node.run()), group.create_task(gateway.run())]
        await eventually(lambda: node_end.state == "up")
        node.post(STATUS)
        await eventually(lambda: "Released" in told)
        gateway.post(Goodbye(BYE, again=False))
    assert told == ["opened", "refused", "asked", "Refused", "Released"]
    assert [task.result() for task in ends] == [Close(BYE, again=False)] * 2


async def test_a_defect_of_the_hearer_is_not_the_speakers(eventually: Eventually) -> None:
    """It ends the run of the link that has it, and the call that said it returns."""
    near, far = memory_pair()
    heard: list[FromNode] = []

    def deliver(message: FromNode) -> None:
        heard.append(message)
        match message:
            case Status():
                raise RuntimeError("a defect")

    node, gateway = _node_pump(near, CALM, []), _near_gateway(far, deliver, [True])

    async def link() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(gateway.run())
            await eventually(lambda: heard == [HELLO])
            node.post(STATUS)

    async with asyncio.TaskGroup() as group:
        end = group.create_task(node.run())
        with pytest.raises(ExceptionGroup) as caught:
            await link()
    assert caught.group_contains(RuntimeError, match="a defect", depth=2)
    assert end.result().failure.reason == "node_lost"
