"""`roost serve` and clients that lose their connections: keys, and streams attached to again."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from openai import OpenAI

from tests.patience import PATIENCE_S
from tests.system.conftest import MODEL, Start
from tests.system.test_serve import SCRIPTED, script

WORDS = [f"{number} " for number in range(80)]
KEY = "a-key-that-nobody-else-has"


def body() -> bytes:
    """Ask for a stream of eighty words in nearly half a second."""
    prompt = script(pieces=WORDS, delay_ms=5)
    asked = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "stream": True}
    return json.dumps(asked).encode()


def send(url: str, method: str, path: str, content: bytes = b"", *lines: str) -> socket.socket:
    """Send a request over a connection of its own."""
    parts = urlsplit(url)
    sock = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S)
    head = [f"{method} {path} HTTP/1.0", "Host: localhost", f"Content-Length: {len(content)}"]
    sock.sendall("\r\n".join([*head, *lines]).encode() + b"\r\n\r\n" + content)
    return sock


def receive(sock: socket.socket, most: int) -> bytes:
    """Read so many bytes, or to the end, and hang up without a word."""
    data = b""
    while len(data) < most and (piece := sock.recv(min(4096, most - len(data)))):
        data += piece
    sock.close()
    return data


def events(reply: bytes) -> list[tuple[int, str]]:
    """The complete events of a reply of HTTP/1.0, whose body is not chunked."""
    blocks = reply.partition(b"\r\n\r\n")[2].split(b"\n\n")[:-1]
    lines = [block.decode().split("\n") for block in blocks if block.startswith(b"id: ")]
    return [(int(id_.removeprefix("id: ")), data.removeprefix("data: ")) for id_, data in lines]


def test_a_stream_survives_any_number_of_lost_connections(start: Start) -> None:
    """Cut at random places and attached to by the last id: every event once, in order."""
    roost = start(*SCRIPTED)
    url = roost.url()
    roost.wait_for("link_up")
    dice = random.Random(5)
    sock = send(url, "POST", "/v1/chat/completions", body(), "x-roost-reattach-s: 10")
    reply = receive(sock, 1500)
    got = events(reply)
    request = reply.decode().partition("x-roost-request-id: ")[2].partition("\r\n")[0]
    tries = 1
    while not got or got[-1][1] != "[DONE]":
        tries += 1
        last = [f"Last-Event-ID: {got[-1][0]}"] if got else []
        sock = send(url, "GET", f"/roost/v1/requests/{request}/stream", b"", *last)
        got += events(receive(sock, dice.randrange(600, 4000)))
    assert tries > 5
    assert [number for number, _ in got] == list(range(len(got)))
    chunks = [json.loads(data) for _, data in got[:-1]]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == "".join(WORDS)


def test_a_key_runs_once_and_is_in_no_log(start: Start, openai: Callable[[str], OpenAI]) -> None:
    """The same stream twice, the second time at once, with the same id; the log has no key."""
    roost = start(*SCRIPTED, "--log-level", "debug")
    url = roost.url()
    roost.wait_for("link_up")
    key = f"Idempotency-Key: {KEY}"
    first, again = (
        receive(send(url, "POST", "/v1/chat/completions", body(), key), 10**6) for _ in range(2)
    )
    assert b"idempotency-replayed: true" in again
    assert b"idempotency-replayed" not in first
    assert again.partition(b"\r\n\r\n")[2] == first.partition(b"\r\n\r\n")[2]
    one, other = (
        openai(url).chat.completions.with_raw_response.create(
            model=MODEL,
            messages=[{"role": "user", "content": f"number {number}"}],
            extra_headers={"Idempotency-Key": f"{KEY}-2"},
        )
        for number in (1, 1)
    )
    assert other.headers["idempotency-replayed"] == "true"
    assert other.headers["x-roost-request-id"] == one.headers["x-roost-request-id"]
    assert other.parse() == one.parse()
    roost.wait_for("request_repeated")
    assert KEY not in roost.output
