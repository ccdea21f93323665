"""VALUE: messages to frames and back: MessagePack with a tag in each message and a size limit.

A frame comes from another process, so nothing about it is trusted: whatever the bytes are,
decoding gives a message of the right direction or `RoostError("bad_request")`. What a well-formed
message may say, and when, is for `wire.link` to judge.

A peer of a newer release may say more than is known here: fields that nobody knows are left out, a
kind of message that nobody knows is told apart (`UnknownKindError`), and a reason for a failure
that nobody knows is taken for a failure of the peer's.
"""

from __future__ import annotations

from typing import TypeVar, get_args

import msgspec

from roost.errors import REASONS, Failure, RoostError, fail
from roost.wire.messages import FromGateway, FromNode

FRAME_MAX_BYTES = 32 * 1024 * 1024
"""Limit of one frame: twice the largest client body, which MessagePack never makes longer."""

_Message = TypeVar("_Message")

# RecursionError: arrays nested ten thousand deep inside a field nobody knows.
# ValueError: a value that its own class refuses, and text that is not UTF-8.
_UNDECODABLE = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)

STRANGE = "upstream_error"
"""What a reason counts as that only a newer release knows."""


class UnknownKindError(RoostError):
    """A message of a kind that is in neither direction of this release: to be passed over."""


_encoder = msgspec.msgpack.Encoder()
_KINDS = frozenset(
    str(kind.__struct_config__.tag) for kind in (*get_args(FromNode), *get_args(FromGateway))
)
_from_node: msgspec.msgpack.Decoder[FromNode] = msgspec.msgpack.Decoder(FromNode)
_from_gateway: msgspec.msgpack.Decoder[FromGateway] = msgspec.msgpack.Decoder(FromGateway)


def encode(message: FromNode | FromGateway, max_bytes: int = FRAME_MAX_BYTES) -> bytes:
    """Frame one message.

    Raises `body_too_large` for a message over `max_bytes`, `bad_request` for one that cannot be
    encoded: both are the message's fault, and neither is the link's.
    """
    try:
        frame = _encoder.encode(message)
    except (OverflowError, UnicodeEncodeError) as error:
        raise fail("bad_request", f"a link message cannot be encoded: {_why(error)}") from None
    if len(frame) > max_bytes:
        text = f"{len(frame)} bytes do not fit a link message, whose limit is {max_bytes} bytes"
        raise fail("body_too_large", text)
    return frame


def decode_from_node(frame: bytes, max_bytes: int = FRAME_MAX_BYTES) -> FromNode:
    """Read a frame of a node; `RoostError("bad_request")` for anything but one message."""
    return _decode(_from_node, frame, max_bytes)


def decode_from_gateway(frame: bytes, max_bytes: int = FRAME_MAX_BYTES) -> FromGateway:
    """Read a frame of a gateway; `RoostError("bad_request")` for anything but one message."""
    return _decode(_from_gateway, frame, max_bytes)


def _decode(decoder: msgspec.msgpack.Decoder[_Message], frame: bytes, max_bytes: int) -> _Message:
    if len(frame) > max_bytes:
        text = f"a link frame of {len(frame)} bytes is over the limit of {max_bytes} bytes"
        raise fail("bad_request", text)
    try:
        return decoder.decode(frame)
    except _UNDECODABLE as error:
        try:
            return _from_newer(decoder, frame)
        except _UNDECODABLE:
            text = f"a link frame cannot be decoded: {_why(error)}"
            raise fail("bad_request", text) from None


def _from_newer(decoder: msgspec.msgpack.Decoder[_Message], frame: bytes) -> _Message:
    """Read what a newer release may have said; raises one of `_UNDECODABLE` for anything else."""
    raw = msgspec.msgpack.decode(frame)
    kind = raw.get("type") if isinstance(raw, dict) else None
    if isinstance(kind, str) and kind not in _KINDS:
        text = "a link message is of a kind that this release does not know"
        raise UnknownKindError(Failure("bad_request", text))
    return decoder.decode(_encoder.encode(_in_known_reasons(raw)))


def _in_known_reasons(value: object) -> object:
    """Give every failure within a reason that there is here, and leave everything else alone."""
    if isinstance(value, list):
        return [_in_known_reasons(one) for one in value]
    if not isinstance(value, dict):
        return value
    mended = {key: _in_known_reasons(one) for key, one in value.items()}
    reason = mended.get("reason")
    if "message" in mended and isinstance(reason, str) and reason not in REASONS:
        mended["reason"] = STRANGE
    return mended


def _why(error: Exception) -> str:
    """Name the kind of error only: its text may quote the content of a prompt."""
    return type(error).__name__
