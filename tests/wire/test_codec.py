"""The codec: whole messages survive the trip, anything else is a bad request and nothing worse."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roost.core.about import BackendAbout, NodeAbout, RuntimeAbout
from roost.core.events import Delta, Failed, Finished, PrefillProgress, Started, Usage, Vectors
from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId, StreamId, TenantId
from roost.core.machine import Device, Memory, Processor
from roost.core.request import (
    ChatPrompt,
    EmbedPrompt,
    GenerateRequest,
    Message,
    RankPrompt,
    TokensPrompt,
)
from roost.core.snapshots import ModelOffer, NodeStatus
from roost.errors import Failure, RoostError
from roost.wire.codec import decode_from_gateway, decode_from_node, encode
from roost.wire.messages import (
    Cancel,
    CancelPull,
    Credit,
    Events,
    FromGateway,
    FromNode,
    Goodbye,
    Hello,
    Open,
    Order,
    Phase,
    Ping,
    Pong,
    Pull,
    Refused,
    Released,
    Status,
    Vacate,
    Want,
    Welcome,
)

CHAT = GenerateRequest(ModelId("m"), ChatPrompt((Message("user", "Grüße, 世界"),)), stop=("\n",))
TOKENS = GenerateRequest(ModelId("m"), TokensPrompt((1, 2**31)), max_tokens=1)
BUSY = Failure("node_busy", "come back", retry_after_s=3)

ABOUT = NodeAbout(
    Processor("cpu", 8, 4, 2, 1.5, ("avx2",)),
    Memory(10, 5, limit_bytes=7),
    (Device("cuda", "GPU", 9, None, "1"),),
    (BackendAbout("b", usable=False, claims=("chat",), why="it is not there", command="get it"),),
    (RuntimeAbout(RuntimeId("r"), 1, 2, None, 4.0, states=False),),
)
FROM_NODE: list[FromNode] = [
    Hello(1, NodeId("n"), "bench", "i1", "roost 0"),
    Status(3, NodeStatus((ModelOffer(ModelId("m"), 4, 4096),), (), 1, 4)),
    Status(4, NodeStatus((), (), 0, 4, about=ABOUT)),
    Phase(StreamId(1), "loading", 0.5),
    Events(StreamId(1), 0, (Started(9, 4, 0), PrefillProgress(4, 9), Delta("é", 2))),
    Events(StreamId(1), 3, (Finished("stop", Usage(9, 4, 2), "\n"),)),
    Events(StreamId(2), 0, (Failed(BUSY),)),
    Refused(StreamId(2), BUSY),
    Released(StreamId(2), "prefill", 0.25),
    Goodbye(BUSY, again=True),
    Ping(1),
    Pong(1),
]
FROM_GATEWAY: list[FromGateway] = [
    Welcome(1, "g", 1.0),
    Open(StreamId(1), RequestId("r"), TenantId("t"), CHAT, 8, 1.5),
    Open(StreamId(2), RequestId("r"), TenantId("t"), TOKENS, 8),
    Credit(StreamId(1), 4),
    Cancel(StreamId(1)),
    Want(ModelId("m")),
    Vacate(vacant=True),
    Pull("j", "hf:org/repo", "q8_0", accepted=True),
    CancelPull("j"),
    Order("j", ModelId("m"), "unload", force=True, wait_s=1.5),
    Goodbye(BUSY, again=False),
    Ping(2),
    Pong(2),
]


EMBED = GenerateRequest(ModelId("m"), EmbedPrompt(("é", (1, 2)), 8), max_tokens=1)
RANK = GenerateRequest(ModelId("m"), RankPrompt("q", ("a", "b")), max_tokens=1)
OPEN_FOR_SCORES = Open(StreamId(4), RequestId("r"), TenantId("t"), RANK, 8)
OPEN_FOR_VECTORS = Open(StreamId(3), RequestId("r"), TenantId("t"), EMBED, 8)
VECTORS = Events(StreamId(3), 0, (Started(9, 0, 0), Vectors(2, bytes(8))))
"""Said to peers alone that have a model for them."""


@pytest.mark.parametrize("message", [*FROM_NODE, VECTORS])
def test_a_node_message_survives(message: FromNode) -> None:
    """What a node encodes, a gateway decodes to the same value."""
    assert decode_from_node(encode(message)) == message


@pytest.mark.parametrize("message", [*FROM_GATEWAY, OPEN_FOR_VECTORS, OPEN_FOR_SCORES])
def test_a_gateway_message_survives(message: FromGateway) -> None:
    """What a gateway encodes, a node decodes to the same value."""
    assert decode_from_gateway(encode(message)) == message


def test_reports_of_other_releases_are_read() -> None:
    """What an older node does not say is unknown, and what a newer one adds is passed over."""
    raw = msgspec.msgpack.decode(encode(Status(3, NodeStatus((), (), 1, 4, about=ABOUT))))
    del raw["status"]["about"]
    assert decode_from_node(msgspec.msgpack.encode(raw)) == Status(3, NodeStatus((), (), 1, 4))
    raw["status"] |= {"about": {"processor": {"model": None, "cores": 1, "usable": 1}}}
    raw["status"]["about"] |= {"memory": {"news": 1}, "weather": "fine"}
    read = decode_from_node(msgspec.msgpack.encode(raw))
    plain = NodeAbout(Processor(None, 1, 1), Memory())
    assert read == Status(3, NodeStatus((), (), 1, 4, about=plain))


def test_the_directions_are_apart() -> None:
    """A node cannot pose as a gateway, nor the other way round."""
    with pytest.raises(RoostError):
        decode_from_gateway(encode(FROM_NODE[0]))
    with pytest.raises(RoostError):
        decode_from_node(encode(FROM_GATEWAY[1]))


def test_the_size_limit_holds_both_ways() -> None:
    """A frame over the limit is neither made nor read, and one at the limit is."""
    frame = encode(FROM_NODE[0])
    assert encode(FROM_NODE[0], max_bytes=len(frame)) == frame
    assert decode_from_node(frame, max_bytes=len(frame)) == FROM_NODE[0]
    with pytest.raises(RoostError) as made:
        encode(FROM_NODE[0], max_bytes=len(frame) - 1)
    with pytest.raises(RoostError) as read:
        decode_from_node(frame, max_bytes=len(frame) - 1)
    assert made.value.failure.reason == "body_too_large"
    assert read.value.failure.reason == "bad_request"


@pytest.mark.parametrize("message", [Ping(2**70), Hello(1, NodeId("\ud800"), "", "", "")])
def test_a_value_without_an_encoding_is_refused(message: FromNode) -> None:
    """Numbers over 64 bits and half characters are a failure, not a crash."""
    with pytest.raises(RoostError) as caught:
        encode(message)
    assert caught.value.failure.reason == "bad_request"


PING = {"type": "ping", "seq": 1}
HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "an invalid opcode": b"\xc1",
    "two messages": encode(Ping(1)) * 2,
    "a cut message": encode(Ping(1))[:-1],
    "no tag": msgspec.msgpack.encode({"seq": 1}),
    "an unknown tag": msgspec.msgpack.encode({"type": "pong!", "seq": 1}),
    "a wrong type": msgspec.msgpack.encode({"type": "ping", "seq": "1"}),
    "a list": msgspec.msgpack.encode([1, 2]),
    "text that is not UTF-8": b"\x82\xa4type\xa4ping\xa3seq\xa1\xff",
    "an unknown reason that is no text": encode(Goodbye(BUSY, again=True)).replace(
        b"\xa9node_busy", b"\xc4\x09node_zzzz"
    ),
    "an array of four billion": b"\x82\xa4type\xa4ping\xa1x\xdd\xff\xff\xff\xff",
    "events without end": b"\x84\xa4type\xa6events\xa6stream\x01\xa3seq\x00\xa6events"
    b"\xdd\xff\xff\xff\xff",
    "arrays in arrays": b"\x82\xa4type\xa4ping\xa1x" + b"\x91" * 100_000 + b"\xc0",
}


@pytest.mark.parametrize("frame", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_frame_is_a_bad_request(frame: bytes) -> None:
    """Whatever the bytes are, the answer is a failure that quotes none of them."""
    for decode in (decode_from_node, decode_from_gateway):
        with pytest.raises(RoostError) as caught:
            decode(frame)
        assert caught.value.failure.reason == "bad_request"
        assert "zzzz" not in caught.value.failure.message


def _decode_or_refuse(frame: bytes) -> None:
    for decode in (decode_from_node, decode_from_gateway):
        reason = "bad_request"
        try:
            decode(frame)
        except RoostError as error:
            reason = error.failure.reason
        assert reason == "bad_request"


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(frame: bytes) -> None:
    """Noise never raises anything but the one failure."""
    _decode_or_refuse(frame)


@given(st.sampled_from(FROM_NODE + FROM_GATEWAY), st.data())
def test_damaged_frames_raise_nothing_else(
    message: FromNode | FromGateway, data: st.DataObject
) -> None:
    """One wrong byte, or a cut, in a real frame never raises anything but the one failure."""
    frame = bytearray(encode(message))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    _decode_or_refuse(bytes(frame))
    _decode_or_refuse(bytes(frame[:at]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = ("stream", "seq", "events", "failure", "request", "credit", "version", "status", "phase")
TAGS = [type(m).__struct_config__.tag for m in FROM_NODE + FROM_GATEWAY]


# Making nested values is what takes time here, and on a busy machine more than hypothesis allows.
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TAGS), st.dictionaries(st.sampled_from(FIELDS), VALUES))
def test_well_formed_nonsense_raises_nothing_else(tag: str, fields: dict[str, object]) -> None:
    """Proper MessagePack with the right tag and wrong fields is judged like noise."""
    _decode_or_refuse(msgspec.msgpack.encode({"type": tag, **fields}))


@given(st.text(), st.integers(0, 2**63 - 1), st.floats(allow_nan=False))
def test_any_text_and_number_survives(text: str, count: int, progress: float) -> None:
    """Values from the whole range come back unchanged."""
    events = Events(StreamId(count), count, (Delta(text, count),))
    assert decode_from_node(encode(events)) == events
    phase = Phase(StreamId(count), "loading", progress)
    assert decode_from_node(encode(phase)) == phase
    assert not math.isnan(progress)
