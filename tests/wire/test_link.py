"""Both ends of a link, pushed against each other and against peers that misbehave."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from roost.core.about import NodeAbout, RuntimeAbout
from roost.core.events import Delta, Finished, Started, Usage
from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId, StreamId, TenantId
from roost.core.machine import Memory, Processor
from roost.core.request import GenerateRequest, TextPrompt
from roost.core.snapshots import LoadView, ModelOffer, NodeStatus, RuntimeView
from roost.errors import Failure
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import GatewayEnd, LinkStatistics, NodeEnd
from roost.wire.link_tables import Close, Deliver, Send
from roost.wire.messages import (
    VERSION,
    Cancel,
    Credit,
    Events,
    FromGateway,
    FromNode,
    Goodbye,
    Hello,
    Open,
    Phase,
    Ping,
    Pong,
    Refused,
    Released,
    Status,
    Want,
    Welcome,
)

SETTINGS = LinkSettings(ping_s=1.0, dead_s=15.0, greeting_s=10.0)
HELLO = Hello(VERSION, NodeId("node-1"), "Küche", "i1", "roost 0")
WELCOME = Welcome(VERSION, "gateway", 1.0)
NO_MEMORY = Memory()
STATUS = Status(0, NodeStatus((), (), 0, 4))
BYE = Failure("draining", "shutting down")
ONE, TWO = StreamId(1), StreamId(2)
REQUEST = GenerateRequest(ModelId("m"), TextPrompt("hi"))


def _open(stream: StreamId = ONE, credit: int = 8, deadline_s: float | None = None) -> Open:
    return Open(stream, RequestId("r"), TenantId("t"), REQUEST, credit, deadline_s)


def _node_up(now: float = 0.0) -> NodeEnd:
    end = NodeEnd(HELLO, SETTINGS, now)
    assert end.start() == [Send(HELLO)]
    assert end.on_message(WELCOME, now) == [Deliver(WELCOME)]
    return end


def _gateway_up(now: float = 0.0) -> GatewayEnd:
    end = GatewayEnd("gateway", SETTINGS, now)
    assert end.on_message(HELLO, now) == [Send(WELCOME), Deliver(HELLO)]
    return end


def _is_breach(outputs: Sequence[object]) -> bool:
    if len(outputs) != 1 or not isinstance(outputs[0], Close):
        return False
    return outputs[0].failure.reason == "upstream_error" and outputs[0].again


class Pair:
    """A node end and a gateway end; each message said on one side arrives on the other at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.node = NodeEnd(HELLO, SETTINGS, 0.0)
        self.gateway = GatewayEnd("gateway", SETTINGS, 0.0)
        self.to_gateway: list[FromNode] = []
        self.to_node: list[FromGateway] = []
        self.closed: list[Close] = []
        self._from_node(self.node.start())

    def say_node(self, message: FromNode) -> None:
        """Let the node say this."""
        self._from_node(self.node.say(message))

    def say_gateway(self, message: FromGateway) -> None:
        """Let the gateway say this."""
        self._from_gateway(self.gateway.say(message))

    def tick(self, seconds: float) -> None:
        """Let time pass on both sides."""
        self.now += seconds
        self._from_node(self.node.on_tick(self.now))
        self._from_gateway(self.gateway.on_tick(self.now))

    def _from_node(self, outputs: list[Deliver[FromGateway] | Send[FromNode] | Close]) -> None:
        for output in outputs:
            match output:
                case Send(message):
                    self._from_gateway(self.gateway.on_message(message, self.now))
                case Deliver(delivered):
                    self.to_node.append(delivered)
                case Close():
                    self.closed.append(output)

    def _from_gateway(self, outputs: list[Deliver[FromNode] | Send[FromGateway] | Close]) -> None:
        for output in outputs:
            match output:
                case Send(message):
                    self._from_node(self.node.on_message(message, self.now))
                case Deliver(delivered):
                    self.to_gateway.append(delivered)
                case Close():
                    self.closed.append(output)


def test_greeting_brings_both_ends_up() -> None:
    """Hello goes up, Welcome comes down, and each side is told once."""
    pair = Pair()
    assert (pair.node.state, pair.gateway.state) == ("up", "up")
    assert pair.to_gateway == [HELLO]
    assert pair.to_node == [WELCOME]


def test_a_whole_request_passes_both_ends() -> None:
    """Open, a wait, events over two grants of credit, the end and the release: all legal."""
    pair = Pair()
    down: list[FromGateway] = [_open(credit=1), Credit(ONE, 3)]
    up: list[FromNode] = [
        STATUS,
        Phase(ONE, "loading", 0.5),
        Events(ONE, 0, (Started(3, 0, 0),)),
        Events(ONE, 1, (Delta("a"), Delta("b"))),
        Events(ONE, 3, (Finished("stop", Usage(3, 0, 2)),)),
        Released(ONE, "done"),
    ]
    for said in down:
        pair.say_gateway(said)
    for heard in up:
        pair.say_node(heard)
    assert pair.to_node == [WELCOME, *down]
    assert pair.to_gateway == [HELLO, *up]
    assert pair.closed == []
    assert pair.gateway.statistics(0.0).streams == 0


def test_idle_ends_keep_each_other_alive() -> None:
    """Pings of both sides are answered for as long as time passes in small steps."""
    pair = Pair()
    for _ in range(200):
        pair.tick(0.5)
    assert pair.closed == []
    assert pair.node.statistics(pair.now) == LinkStatistics("up", 0.0, 0.0)
    assert pair.gateway.statistics(pair.now) == LinkStatistics("up", 0.0, 0.0)


def test_goodbye_closes_both_ends() -> None:
    """The one that leaves sends and closes; the other closes with the same reason."""
    pair = Pair()
    pair.say_node(Goodbye(BYE, again=False))
    assert pair.closed == [Close(BYE, again=False)] * 2
    assert (pair.node.state, pair.gateway.state) == ("closed", "closed")

    other = Pair()
    other.say_gateway(Goodbye(BYE, again=True))
    assert other.closed == [Close(BYE, again=True)] * 2


def test_a_closed_end_is_silent() -> None:
    """After the close nothing is sent, delivered or awaited."""
    node, gateway = _node_up(), _gateway_up()
    node.say(Goodbye(BYE, again=True))
    gateway.say(Goodbye(BYE, again=True))
    assert node.say(STATUS) == node.on_message(Ping(1), 1.0) == node.on_tick(99.0) == []
    assert gateway.say(_open()) == gateway.on_message(Ping(1), 1.0) == gateway.on_tick(99.0) == []
    assert node.next_tick() is None
    assert gateway.next_tick() is None


def test_another_version_gets_a_goodbye() -> None:
    """A node of another release is told why, and not to dial again."""
    gateway = GatewayEnd("gateway", SETTINGS, 0.0)
    bye, close = gateway.on_message(msgspec.structs.replace(HELLO, version=VERSION + 1), 0.0)
    assert isinstance(bye, Send)
    assert isinstance(bye.message, Goodbye)
    assert close == Close(bye.message.failure, again=False)
    assert bye.message.failure.reason == "unsupported"
    assert f"version {VERSION + 1}" in bye.message.failure.message

    node = NodeEnd(HELLO, SETTINGS, 0.0)
    assert node.on_message(bye.message, 0.0) == [Close(bye.message.failure, again=False)]


def test_a_gateway_of_another_version_is_left() -> None:
    """A node does not speak to a gateway it does not understand."""
    (close,) = NodeEnd(HELLO, SETTINGS, 0.0).on_message(Welcome(VERSION + 1, "g", 1.0), 0.0)
    assert isinstance(close, Close)
    assert (close.failure.reason, close.again) == ("unsupported", False)


def test_greeting_has_a_time_limit() -> None:
    """A peer that connects and says nothing is not waited for."""
    for end in (NodeEnd(HELLO, SETTINGS, 5.0), GatewayEnd("g", SETTINGS, 5.0)):
        assert end.next_tick() == 15.0
        assert end.on_tick(14.9) == []
        (close,) = end.on_tick(15.0)
        assert isinstance(close, Close)
        assert (close.failure.reason, close.again) == ("node_lost", True)


def test_silence_closes_and_pings_do_not_stop_it() -> None:
    """An end that hears nothing pings once per second and gives up after `dead_s`."""
    for end in (_node_up(), _gateway_up()):
        pings = [end.on_tick(float(second)) for second in range(1, 15)]
        assert pings == [[Send(Ping(n))] for n in range(1, 15)]
        assert end.statistics(14.0).heard_age_s == 14.0
        (close,) = end.on_tick(15.0)
        assert isinstance(close, Close)
        assert (close.failure.reason, close.again) == ("node_lost", True)
        assert end.state == "closed"


def test_an_end_that_was_asleep_does_not_blame_its_peer() -> None:
    """A process that was stopped for a minute pings first, and judges by what is heard then."""
    for end in (_node_up(), _gateway_up()):
        assert end.on_tick(60.0) == [Send(Ping(1))]
        assert end.state == "up"
        assert end.on_message(Ping(1), 60.5) == [Send(Pong(1))]
        pings = [end.on_tick(60.5 + second) for second in range(1, 15)]
        assert all(len(said) == 1 and isinstance(said[0], Send) for said in pings)
        (close,) = end.on_tick(75.5)
        assert isinstance(close, Close)


def test_a_greeting_that_was_slept_through_may_still_be_read() -> None:
    """It lies in the socket: there is a moment to read it, and no more than that."""
    for end in (NodeEnd(HELLO, SETTINGS, 0.0), GatewayEnd("g", SETTINGS, 0.0)):
        assert end.on_tick(30.0) == []
        assert end.next_tick() == 30.5
        (close,) = end.on_tick(30.5)
        assert isinstance(close, Close)


def test_the_node_pings_as_the_gateway_asks() -> None:
    """The interval of the Welcome counts, when it leaves room for lost pings."""
    node = NodeEnd(HELLO, SETTINGS, 0.0)
    node.on_message(Welcome(VERSION, "g", 0.25), 1.0)
    assert node.next_tick() == 1.25
    for ping_s in (0.0, -1.0, float("nan"), float("inf"), 8.0):
        end = NodeEnd(HELLO, SETTINGS, 0.0)
        assert _is_breach(end.on_message(Welcome(VERSION, "g", ping_s), 0.0))


def test_pings_are_answered_and_round_trips_measured() -> None:
    """A Ping gets its Pong at once; a Pong is kept to oneself."""
    for end in (_node_up(), _gateway_up()):
        assert end.on_message(Ping(7), 0.5) == [Send(Pong(7))]
        assert end.on_tick(1.0) == [Send(Ping(1))]
        assert end.on_message(Pong(1), 1.25) == []
        assert end.statistics(2.0) == LinkStatistics("up", 0.75, 0.25)


def _about(
    memory: Memory = NO_MEMORY, features: tuple[str, ...] = (), rate: float | None = None
) -> Status:
    """A node that says odd things of itself."""
    runtime = RuntimeAbout(RuntimeId("r"), decode_tokens_per_s=rate)
    about = NodeAbout(Processor(None, 1, 1, features=features), memory, runtimes=(runtime,))
    return Status(1, NodeStatus((), (), 0, 4, about=about))


NODE_BREACHES: dict[str, FromNode] = {
    "a second hello": HELLO,
    "a pong to no ping": Pong(1),
    "events of no stream": Events(TWO, 0, (Delta("a"),)),
    "a phase of no stream": Phase(TWO, "loading"),
    "a refusal of no stream": Refused(TWO, BYE),
    "a release of no stream": Released(TWO, "done"),
    "a release without an end": Released(ONE, "done"),
    "events out of order": Events(ONE, 1, (Delta("a"),)),
    "a status out of order": Status(2, STATUS.status),
    "a repeated status": STATUS,
    "a negative count": Status(1, NodeStatus((), (), -1, 4)),
    "a negative slot count": Status(1, NodeStatus((ModelOffer(ModelId("m"), -1, 1),), (), 0, 4)),
    "a time that is no number": Status(
        1, NodeStatus((), (), 0, 4, loads=(LoadView(ModelId("m"), (), "young", float("nan")),))
    ),
    "a machine of negative memory": _about(memory=Memory(-1)),
    "more of anything than there can be": _about(features=("x",) * 257),
    "a rate that is no number": _about(rate=float("nan")),
    "a load of endless length": Status(
        1, NodeStatus((), (RuntimeView(ModelId("m"), "b", "ready", load_s=float("inf")),), 0, 4)
    ),
}


@pytest.mark.parametrize("message", NODE_BREACHES.values(), ids=NODE_BREACHES.keys())
def test_a_node_that_breaks_the_protocol_is_cut_off(message: FromNode) -> None:
    """The breach is not delivered, closes the link, and leaves the open stream as it was."""
    gateway = _gateway_up()
    gateway.say(_open())
    gateway.on_message(STATUS, 0.0)
    assert _is_breach(gateway.on_message(message, 9.0))
    assert gateway.statistics(9.0) == LinkStatistics("closed", 9.0, None, streams=1)


GATEWAY_BREACHES: dict[str, FromGateway] = {
    "a second welcome": WELCOME,
    "a pong to no ping": Pong(1),
    "a stream number used twice": _open(ONE),
    "a falling stream number": _open(StreamId(0)),
    "negative credit": _open(TWO, credit=-1),
    "a deadline that is no number": _open(TWO, deadline_s=float("nan")),
    "an endless deadline": _open(TWO, deadline_s=float("inf")),
    "credit for a stream never opened": Credit(TWO, 1),
    "credit of nothing": Credit(ONE, 0),
    "a cancel of a stream never opened": Cancel(TWO),
}


@pytest.mark.parametrize("message", GATEWAY_BREACHES.values(), ids=GATEWAY_BREACHES.keys())
def test_a_gateway_that_breaks_the_protocol_is_left(message: FromGateway) -> None:
    """The breach is not delivered and closes the link."""
    node = _node_up()
    assert node.on_message(_open(ONE), 0.0) == [Deliver(_open(ONE))]
    assert _is_breach(node.on_message(message, 9.0))
    assert node.state == "closed"


@pytest.mark.parametrize("message", [STATUS, Ping(1), Released(ONE, "done")])
def test_a_node_has_to_introduce_itself_first(message: FromNode) -> None:
    """Nothing but Hello opens a link."""
    assert _is_breach(GatewayEnd("g", SETTINGS, 0.0).on_message(message, 0.0))


@pytest.mark.parametrize("message", [Ping(1), _open(), Cancel(ONE), Want(ModelId("m"))])
def test_a_gateway_has_to_welcome_first(message: FromGateway) -> None:
    """Nothing but Welcome or Goodbye answers a Hello."""
    assert _is_breach(NodeEnd(HELLO, SETTINGS, 0.0).on_message(message, 0.0))


@pytest.mark.parametrize(
    "hello",
    [
        msgspec.structs.replace(HELLO, node=NodeId("")),
        msgspec.structs.replace(HELLO, node=NodeId("a b")),
        msgspec.structs.replace(HELLO, node=NodeId("a\r\nx-evil: 1")),
        msgspec.structs.replace(HELLO, node=NodeId("é")),
        msgspec.structs.replace(HELLO, node=NodeId("n" * 129)),
        msgspec.structs.replace(HELLO, name="two\nlines"),
        msgspec.structs.replace(HELLO, name="n" * 129),
    ],
)
def test_ids_are_fit_for_headers(hello: Hello) -> None:
    """An id that could break a header, a metric or a log line is refused."""
    assert _is_breach(GatewayEnd("g", SETTINGS, 0.0).on_message(hello, 0.0))


def test_what_crosses_a_release_is_no_breach() -> None:
    """Credit and Cancel may arrive after Released, and the other way round."""
    node = _node_up()
    node.on_message(_open(ONE), 0.0)
    node.say(Released(ONE, "done"))
    assert node.on_message(Credit(ONE, 1), 0.0) == [Deliver(Credit(ONE, 1))]
    assert node.on_message(Cancel(ONE), 0.0) == [Deliver(Cancel(ONE))]

    gateway = _gateway_up()
    gateway.say(_open(ONE))
    assert gateway.on_message(Refused(ONE, BYE), 0.0) == [Deliver(Refused(ONE, BYE))]
    gateway.on_message(Released(ONE, "waiting"), 0.0)
    assert gateway.say(Credit(ONE, 1)) == [Send(Credit(ONE, 1))]
    assert gateway.say(Cancel(ONE)) == [Send(Cancel(ONE))]


def test_a_wish_for_a_model_passes() -> None:
    """Want names a model and no stream; what becomes of it is the node's own business."""
    want = Want(ModelId("m"))
    assert _gateway_up().say(want) == [Send(want)]
    assert _node_up().on_message(want, 0.0) == [Deliver(want)]


def test_after_a_cancel_a_bare_release_is_enough() -> None:
    """Events under way still pass, and Released needs no terminal event before it."""
    gateway = _gateway_up()
    gateway.say(_open(ONE))
    gateway.say(Cancel(ONE))
    late = Events(ONE, 0, (Started(1, 0, 0),))
    released = Released(ONE, "prefill", 0.1)
    assert gateway.on_message(late, 0.0) == [Deliver(late)]
    assert gateway.on_message(released, 0.0) == [Deliver(released)]
    assert _is_breach(gateway.on_message(late, 0.0))


def test_our_own_mistakes_are_asserted() -> None:
    """A room that says what its end may not say has a defect, and hears of it at once."""
    with pytest.raises(AssertionError):
        NodeEnd(HELLO, SETTINGS, 0.0).say(STATUS)
    gateway = _gateway_up()
    gateway.say(_open(TWO))
    with pytest.raises(AssertionError):
        gateway.say(_open(ONE))
    with pytest.raises(AssertionError):
        GatewayEnd("g", SETTINGS, 0.0).say(Cancel(ONE))


def test_a_gateway_may_refuse_before_the_greeting() -> None:
    """A Goodbye is legal in every state but closed."""
    gateway = GatewayEnd("g", SETTINGS, 0.0)
    bye = Goodbye(BYE, again=True)
    assert gateway.say(bye) == [Send(bye), Close(BYE, again=True)]
    node = NodeEnd(HELLO, SETTINGS, 0.0)
    assert node.say(bye) == [Send(bye), Close(BYE, again=True)]
