"""VALUE: where the front listens and what it puts up with."""

from __future__ import annotations

import msgspec


class Listener(msgspec.Struct, frozen=True):
    """Where to listen. Port 0 takes a free one; both TLS files (PEM) or neither."""

    host: str = "127.0.0.1"
    port: int = 7878
    tls_cert: str | None = None
    tls_key: str | None = None
    backlog: int = 2048


class FrontLimits(msgspec.Struct, frozen=True):
    """What one client connection may cost.

    `head_s` bounds a request head from its first byte to its last, and a connection that has not
    sent any; `body_s` bounds the body from the end of the head; both are absolute, whatever
    trickles in. `idle_s` is how long a connection is kept after a reply: longer than the 60 s of
    most reverse proxies, for the side that closes last never loses a request to the other's close.
    `write_s` is how long the oldest unsent byte may wait for a client that does not read. Where a
    relay has such a deadline of its own, this one is larger, so that the relay decides.
    `linger_s` is how long input is still discarded after a refusal, so that the client can read it,
    and how long an idle connection stays open while we drain.
    `send_buffer_bytes` is the kernel's share (SO_SNDBUF), `write_buffer_bytes` ours: beyond it the
    producer is told to wait. `pipelined` requests may wait behind the one being answered.
    `websocket_close_s` is how long a WebSocket that ends may wait for its peer.
    Of the connections over `connections_max` up to `refusals_max` are told so, the others are cut:
    a refusal takes a descriptor until it is read. `bodies_max_bytes` bounds all request bodies of
    all connections together, from their first byte until their reply is done. Deadlines are checked
    every `sweep_s`, their only error.
    """

    head_s: float = 10.0
    body_s: float = 60.0
    idle_s: float = 75.0
    write_s: float = 60.0
    linger_s: float = 2.0
    sweep_s: float = 0.25
    head_max_bytes: int = 16_384
    body_max_bytes: int = 16 * 1024 * 1024
    bodies_max_bytes: int = 256 * 1024 * 1024
    connections_max: int = 4096
    refusals_max: int = 64
    send_buffer_bytes: int = 65_536
    write_buffer_bytes: int = 32_768
    pipelined: int = 8
    pipelined_bytes: int = 65_536
    websocket_message_bytes: int = 16 * 1024 * 1024
    websocket_close_s: float = 2.0
