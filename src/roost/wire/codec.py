"""VALUE: messages to frames and back: MessagePack with a tag in each message and a size limit.

A frame comes from another process, so nothing about it is trusted: whatever the bytes are,
decoding gives a message of the right direction or `RoostError("bad_request")`. What a well-formed
message may say, and when, is for `wire.link` to judge.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from roost.errors import fail
from roost.wire.messages import FromGateway, FromNode

FRAME_MAX_BYTES = 32 * 1024 * 1024
"""Limit of one frame: twice the largest client body, which MessagePack never makes longer."""

_Message = TypeVar("_Message")

# RecursionError: arrays nested ten thousand deep inside a field nobody knows.
# ValueError: a value that its own class refuses, and text that is not UTF-8.
_UNDECODABLE = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)

_encoder = msgspec.msgpack.Encoder()
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
        raise fail("bad_request", f"a link frame cannot be decoded: {_why(error)}") from None


def _why(error: Exception) -> str:
    """Name the kind of error only: its text may quote the content of a prompt."""
    return type(error).__name__
