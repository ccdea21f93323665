"""SHELL: the program of `parser`'s child: bodies in, requests out, until the input closes."""

from __future__ import annotations

import sys
from typing import BinaryIO

import msgspec

from roost.gateway.reading.parser import LENGTH
from roost.gateway.reading.parsing import Job, parse

_decoder = msgspec.msgpack.Decoder(Job)
_encoder = msgspec.msgpack.Encoder()


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer one job after the other."""
    while len(head := source.read(LENGTH.size)) == LENGTH.size:
        (size,) = LENGTH.unpack(head)
        answer = _encoder.encode(parse(_decoder.decode(source.read(size))))
        sink.write(LENGTH.pack(len(answer)) + answer)
        sink.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
