"""What a death looks like to clients has a name each, and the lies among them are found out."""

from __future__ import annotations

import pytest

from roost.bench.drills.answers import Answer
from roost.bench.drills.asking import Chat, ask
from roost.bench.peers.asking import seen
from roost.bench.peers.deaths import STREAMS, Death, how
from tests.bench.lying import DONE, ERROR, HEAD, LAST, said, server

BEGUN = HEAD + said("0 ", "1 ")
REFUSED = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n%s\r\n{}"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (BEGUN, "broken body"),
        (BEGUN + LAST, "clean end without [DONE]"),
        (BEGUN + DONE + LAST, "false [DONE]"),
        (BEGUN + ERROR, "error event"),
        (BEGUN + ERROR + LAST, "error event"),
        (BEGUN + ERROR + DONE + LAST, "error event, then [DONE]"),
        (REFUSED % b"", "refused with 502"),
        (b"", "silent"),
    ],
)
async def test_an_end_has_a_name(reply: bytes, words: str) -> None:
    """As the client that everybody is asked by reads it."""
    async with server(reply) as port:
        assert how(await ask(Chat(port, "m", "hello"))) == words


async def test_every_stream_and_the_chat_after_them_are_told() -> None:
    """By a server that refuses all."""
    async with server(REFUSED % b"Retry-After: 3\r\n") as port:
        told = await seen("it", port, "key")
    assert len(told.answers) == STREAMS
    assert (told.streams, told.then) == ("refused with 502", "502, retry-after")


def test_ends_that_differ_are_counted() -> None:
    """The most frequent one first."""
    cut, whole = (Answer(0.0, 0.0, 1.0, end, 200, clean=False) for end in ("cut", "complete"))
    assert Death("it", (whole, cut, cut), cut).streams == "2 broken body, 1 false [DONE]"
