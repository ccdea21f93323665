"""Version N and N-1 of the link: what was agreed upon, what is passed over, what is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import ModelId, NodeId, StreamId
from roost.core.snapshots import ModelOffer, NodeStatus
from roost.errors import Failure
from roost.wire import versions
from roost.wire.codec import (
    UnknownKindError,
    decode_from_gateway,
    decode_from_node,
    encode,
)
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import GatewayEnd, NodeEnd
from roost.wire.link_tables import Close, Deliver, Send
from roost.wire.messages import (
    OLDEST,
    VERSION,
    FromGateway,
    FromNode,
    Goodbye,
    Hello,
    Ping,
    Refused,
    Status,
    Welcome,
)
from tests.wire.old_version import Frame, NotUnderstoodError, as_heard, recorded
from tests.wire.test_codec import (
    FROM_GATEWAY,
    FROM_NODE,
    OPEN_FOR_SCORES,
    OPEN_FOR_VECTORS,
    VECTORS,
)

SINCE_V1 = {"order", "cancel_pull"}
"""Kinds of messages that version 1 does not know; they are said to nobody who has not asked."""


def hello(oldest: int, newest: int = 0, software: str = "roost 9") -> Hello:
    """A node that speaks these versions."""
    return Hello(oldest, NodeId("node-1"), "n", "i", software, newest)


def decoded(frame: Frame) -> FromNode | FromGateway:
    """Read a recorded frame."""
    data = bytes.fromhex(frame.hex)
    return decode_from_node(data) if frame.sender == "node" else decode_from_gateway(data)


def contains(value: object, part: object) -> bool:
    """Whether all that a recorded value says is in today's; that may say more."""
    if isinstance(part, dict):
        return isinstance(value, dict) and all(
            contains(value[key], one) if key in value else one in (None, 0, "", [], False)
            for key, one in part.items()
        )
    if isinstance(part, list):
        return isinstance(value, list) and all(map(contains, value, part))
    return value == part


@pytest.mark.parametrize(
    ("oldest", "newest", "version"),
    [
        (1, 0, 1),
        (1, 2, 2),
        (2, 0, 2),
        (1, 3, 2),
        (2, 3, 2),
        (3, 4, None),
        (0, 0, None),
        (-5, 99, 2),
    ],
)
def test_the_newest_that_both_speak_is_spoken(
    oldest: int, newest: int, version: int | None
) -> None:
    """Whoever is newer speaks as the other one does; without a common version nobody does."""
    assert (OLDEST, VERSION) == (1, 2)
    assert versions.agreed(hello(oldest, newest)) == version
    gateway = GatewayEnd("g", LinkSettings(), 0.0)
    first, *_ = gateway.on_message(hello(oldest, newest), 0.0)
    assert isinstance(first, Send)
    if version is None:
        assert isinstance(first.message, Goodbye)
        assert not first.message.again
        assert gateway.version == 0
    else:
        assert first.message == Welcome(version, "g", 1.0)
        assert gateway.version == version
        node = NodeEnd(hello(oldest, newest), LinkSettings(), 0.0)
        assert node.on_message(first.message, 0.0) == [Deliver(first.message)]
        assert node.version == version


def test_this_release_joins_gateways_of_the_one_before() -> None:
    """They accept their own version alone, and know no `newest`: the node's is the older one."""
    spoken = hello(OLDEST, VERSION)
    assert as_heard("node", spoken)["version"] == 1
    node = NodeEnd(spoken, LinkSettings(), 0.0)
    assert node.on_message(Welcome(1, "old", 1.0), 0.0) == [Deliver(Welcome(1, "old", 1.0))]
    assert node.version == 1


@pytest.mark.parametrize(
    ("peer", "words"),
    [
        (hello(0), "Upgrade the node, which has roost 9, and join again"),
        (hello(0, software="\x1b[2J"), "Upgrade the node and join again"),
        (
            hello(7, 9),
            "speaks versions 7 to 9 of the link, the gateway versions 1 to 2. Upgrade the",
        ),
    ],
)
def test_whoever_is_too_old_is_named(peer: Hello, words: str) -> None:
    """The node is told what to upgrade, and that dialling again is no use until then."""
    gateway = GatewayEnd("g", LinkSettings(), 0.0)
    said, close = gateway.on_message(peer, 0.0)
    assert isinstance(said, Send)
    assert isinstance(said.message, Goodbye)
    assert words in said.message.failure.message
    assert close == Close(said.message.failure, again=False)


@pytest.mark.parametrize(
    ("version", "words"), [(0, "Upgrade the gateway"), (3, "Upgrade this node")]
)
def test_a_gateway_that_chose_another_version_is_left(version: int, words: str) -> None:
    """No gateway of roost does; the words say who is older all the same."""
    node = NodeEnd(hello(OLDEST, VERSION), LinkSettings(), 0.0)
    (close,) = node.on_message(Welcome(version, "g", 1.0), 0.0)
    assert isinstance(close, Close)
    assert words in close.failure.message
    assert not close.again


def test_what_version_1_sent_means_what_it_meant() -> None:
    """Every recorded frame is read, and nothing that it said has been lost or changed."""
    for frame in recorded():
        message = msgspec.json.decode(msgspec.json.encode(decoded(frame)))
        assert contains(message, frame.value), frame.kind


def test_every_kind_of_version_1_was_recorded() -> None:
    """The recording is complete, so the test above is."""
    kinds = {(frame.sender, frame.kind) for frame in recorded()}
    known = {("node", str(type(m).__struct_config__.tag)) for m in FROM_NODE}
    known |= {("gateway", str(type(m).__struct_config__.tag)) for m in FROM_GATEWAY}
    assert kinds == {one for one in known if one[1] not in SINCE_V1}


@pytest.mark.parametrize("message", FROM_NODE)
def test_version_1_gateways_understand_this_nodes_messages(message: FromNode) -> None:
    """They leave out what they do not know, and miss nothing that they need."""
    assert decode_from_node(msgspec.msgpack.encode(as_heard("node", message)))


@pytest.mark.parametrize("message", FROM_GATEWAY)
def test_version_1_nodes_understand_this_gateways_messages(message: FromGateway) -> None:
    """The same downwards; what they cannot know is a kind of its own."""
    if type(message).__struct_config__.tag in SINCE_V1:
        with pytest.raises(NotUnderstoodError):
            as_heard("gateway", message)
    else:
        assert decode_from_gateway(msgspec.msgpack.encode(as_heard("gateway", message)))


def test_vectors_are_nothing_for_version_1() -> None:
    """It would close the link over them; what a node of today reports of its models, it reads."""
    for opened in (OPEN_FOR_VECTORS, OPEN_FOR_SCORES):
        with pytest.raises(NotUnderstoodError):
            as_heard("gateway", opened)
    with pytest.raises(NotUnderstoodError):
        as_heard("node", VECTORS)
    offer = ModelOffer(ModelId("m"), 1, 512, mode="embed", vector_sizes=(384,))
    heard = as_heard("node", Status(1, NodeStatus((offer,), (), 0, 1)))
    assert decode_from_node(msgspec.msgpack.encode(heard)) == Status(
        1, NodeStatus((ModelOffer(ModelId("m"), 1, 512),), (), 0, 1)
    )


NEW_VALUES = st.recursive(
    st.none() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
NEW_NAMES = st.sampled_from(["zukunft", "x-new", "", "ü", "types", "Version"])


def grown(value: object, data: st.DataObject) -> object:
    """Put fields of a newer release into some of the objects of a message."""
    if isinstance(value, list):
        return [grown(one, data) for one in value]
    if not isinstance(value, dict):
        return value
    more = {key: grown(one, data) for key, one in value.items()}
    if data.draw(st.booleans()):
        more[data.draw(NEW_NAMES)] = data.draw(NEW_VALUES)
    return more


@given(st.sampled_from(FROM_NODE + FROM_GATEWAY), st.data())
def test_fields_of_a_newer_release_are_left_out(
    message: FromNode | FromGateway, data: st.DataObject
) -> None:
    """Wherever they stand, what is known means what it would without them."""
    raw = grown(msgspec.msgpack.decode(encode(message)), data)
    frame = msgspec.msgpack.encode(raw)
    read = decode_from_node(frame) if message in FROM_NODE else decode_from_gateway(frame)
    assert read == message


@given(st.text(max_size=20), st.dictionaries(NEW_NAMES, NEW_VALUES, max_size=3))
def test_kinds_of_a_newer_release_are_told_apart(kind: str, fields: dict[str, object]) -> None:
    """They are no defect of the peer's, and no message either."""
    known = {str(type(m).__struct_config__.tag) for m in FROM_NODE + FROM_GATEWAY}
    if kind in known:
        return
    frame = msgspec.msgpack.encode({"type": kind, **fields})
    for decode in (decode_from_node, decode_from_gateway):
        with pytest.raises(UnknownKindError):
            decode(frame)


def test_reasons_of_a_newer_release_are_failures_of_the_peer() -> None:
    """The words arrive, and how long to wait; the class of the failure is one that there is."""
    refused = Refused(StreamId(2), Failure("node_busy", "come back", retry_after_s=3))
    frame = encode(refused).replace(b"node_busy", b"node_zzzz")
    heard = decode_from_node(frame)
    assert isinstance(heard, Refused)
    assert heard.failure.reason == "upstream_error"
    assert (heard.failure.message, heard.failure.retry_after_s) == ("come back", 3)
    assert decode_from_node(encode(Ping(1))) == Ping(1)
