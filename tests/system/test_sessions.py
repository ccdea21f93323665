"""More conversations than slots on a real model: each comes back to what it had."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.patience import PATIENCE_S
from tests.smollm2 import smollm2_path
from tests.system.processes import Roost, fetch

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(120)]
MODEL = "smollm2-135m-instruct"
TALKS = 64
SLOTS = 4
WORDS = ["amber", "birch", "cedar", "dune", "elm", "fern", "grove", "heath", "iris", "jade"]
Message = dict[str, str]


def beginning(number: int) -> list[Message]:
    """Give the first turn of a conversation that shares little with any other."""
    words = " ".join(WORDS[(number * step) % 10] for step in range(1, 12))
    # Without a system message the template puts in its own, which all would share.
    return [
        {"role": "system", "content": f"{number}"},
        {"role": "user", "content": words},
    ]


def post(url: str, path: str, body: object) -> bytes:
    """POST JSON and return the body of a 200."""
    parts = urlsplit(url)
    with closing(
        HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    ) as connection:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        return reply.read()


def ask(url: str, messages: list[Message]) -> tuple[list[Message], dict[str, int]]:
    """Send a conversation; give it with the answer, and the counts of prompt and cached tokens."""
    body = {"model": MODEL, "messages": messages, "max_tokens": 2, "temperature": 0}
    said = json.loads(post(url, "/v1/chat/completions", body))
    usage = said["usage"]
    counts = {
        "prompt": usage["prompt_tokens"],
        "cached": usage["prompt_tokens_details"]["cached_tokens"],
    }
    return [*messages, said["choices"][0]["message"]], counts


def test_many_conversations_keep_their_context_on_few_slots(tmp_path: Path) -> None:
    """64 on 4 slots: the second turn of each has at least 0.9 of its history from the cache.

    There is room for some of them in memory; the others come back from disk.
    """
    arguments = (
        *("serve", str(smollm2_path()), "--port", "0", "--slots", str(SLOTS), "--ctx", "512"),
        *("--threads", "1", "--sessions-tokens-min", "16"),
        *("--sessions-ram-bytes", "40000000", "--sessions-disk-bytes", "200000000"),
    )
    with (
        Roost(tmp_path / "roost.log", *arguments, home=tmp_path / "home") as roost,
        ThreadPoolExecutor(SLOTS) as pool,
    ):
        roost.wait_for("runtime_ready")
        url = roost.url()
        firsts = list(pool.map(lambda n: ask(url, beginning(n)), range(TALKS)))
        more = {"role": "user", "content": "go on"}
        seconds = list(pool.map(lambda first: ask(url, [*first[0], more]), firsts))
        shares = [
            second["cached"] / first["prompt"]
            for (_, first), (_, second) in zip(firsts, seconds, strict=True)
        ]
        assert min(shares) >= 0.9, sorted(shares)[:9]
        (node,) = msgspec.json.decode(fetch(url, "/roost/v1/fleet"))["nodes"]
        sessions = node["sessions"]
        assert sessions["failures"] == sessions["forgotten"] == 0
        assert sessions["restores"] >= TALKS - 2 * SLOTS
        assert 0 < sessions["ram_bytes"] <= 40_000_000
        assert sessions["disk"] > 0
        assert 'roost_sessions{node="' in fetch(url, "/metrics").decode()
