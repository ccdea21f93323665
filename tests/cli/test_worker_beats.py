"""What a worker API may tell a coordinator, checked before anything listens."""

from __future__ import annotations

import pytest

from roost.cli.parts.worker_beats import check_beats
from roost.config import Machine, Settings, load
from roost.errors import RoostError

PINNED = f"rt-abc.{'ab' * 32}"


def settings(**flags: str) -> Settings:
    """Settings of a worker that tells a coordinator of itself."""
    given = {"worker_api": "127.0.0.1:3001", **flags}
    return load({}, given, "", Machine(4, "/srv/roost")).settings


@pytest.mark.parametrize(
    ("url", "token", "words"),
    [
        ("http://10.0.0.1:1", PINNED, "write https://HOST:PORT"),
        ("https://127.0.0.1:1", PINNED[:-1], "perhaps cut short"),
        ("ftp://127.0.0.1:1", "rt-abc", "write http(s)://"),
    ],
)
def test_a_token_that_names_a_certificate_wants_to_see_it(url: str, token: str, words: str) -> None:
    """In the clear beyond this machine there is none; the message never has the token."""
    with pytest.raises(RoostError) as caught:
        check_beats(settings(worker_heartbeat=url, worker_heartbeat_token=token))
    assert words in caught.value.failure.message
    assert token not in caught.value.failure.message


def test_what_is_in_order_is_let_through() -> None:
    """With TLS where a certificate is named, without on this machine, and no heartbeats at all."""
    check_beats(settings(worker_heartbeat="http://127.0.0.1:1", worker_heartbeat_token=PINNED))
    check_beats(settings(worker_heartbeat="https://h", worker_heartbeat_token=PINNED))
    check_beats(settings(worker_heartbeat="http://127.0.0.1:1", worker_heartbeat_token="rt-abc"))
    check_beats(settings())
