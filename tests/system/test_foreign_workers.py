"""Workers of system 1 in a fleet: nodes with a worker API that announce themselves to a gateway."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE_S
from tests.smollm2 import smollm2_path
from tests.system.conftest import Start
from tests.system.processes import Roost, fetch, wait

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
LOOPBACK = ("--coordinator-worker-nets", "127.0.0.0/8")
SAYS = '@script {"pieces": ["Hel", "lo"]}'
SLOW = '@script {"pieces": ["a","b","c","d","e","f","g","h","i","j","k","l"], "delay_ms": 500}'
Fields = dict[str, object]
MOST = 24


class Reply(NamedTuple):
    """A reply to a turn."""

    status: int
    headers: dict[str, str]
    events: list[Fields]

    @property
    def text(self) -> str:
        """What was said."""
        return "".join(str(event.get("token", "")) for event in self.events)

    @property
    def served(self) -> Fields:
        """How it was served, by its last event."""
        roost = self.events[-1]["roost"]
        assert isinstance(roost, dict)
        return roost


def say(
    url: str,
    prompt: str,
    affinity: str = "prefer",
    then: Callable[[], None] | None = None,
    model: str = "tiny",
) -> Reply:
    """Say something in a conversation; do `then` once the answer has begun, and read its rest."""
    body = {"conversation_id": "c", "prompt": prompt, "model": model, "max_tokens": MOST}
    body |= {"temperature": 0}
    with closing(
        http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    ) as connection:
        connection.request(
            "POST", "/coordinator/infer", json.dumps(body), {"x-roost-affinity": affinity}
        )
        reply = connection.getresponse()
        if then is not None:
            then()
        try:
            raw = reply.read()
        except http.client.IncompleteRead as error:
            raw = error.partial
    headers = {name.lower(): value for name, value in reply.getheaders()}
    if reply.status != 200:
        return Reply(reply.status, headers, [json.loads(raw)])
    lines = raw.decode().split("\n")
    return Reply(200, headers, [json.loads(one[6:]) for one in lines if one.startswith("data: ")])


def chatted(url: str, model: str, history: list[str]) -> str:
    """What the model answers to a whole history, sent by a client that keeps it by itself."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(history)]
    body = {"model": model, "messages": messages, "temperature": 0, "max_tokens": MOST}
    with closing(
        http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    ) as connection:
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        return str(json.loads(connection.getresponse().read())["choices"][0]["message"]["content"])


def token_of(start: Start) -> str:
    """Make a join token."""
    made = start("token", "--json")
    assert made.ends() == 0
    return str(json.loads(made.output)["token"])


def alive(url: str) -> list[str]:
    """The workers that are alive."""
    listed = json.loads(fetch(url, "/coordinator/health/workers/available"))["workers"]
    return [worker["id"] for worker in listed]


def joined(url: str) -> list[str]:
    """The workers that are in the fleet, with what they serve."""
    nodes = json.loads(fetch(url, "/roost/v1/fleet"))["nodes"]
    return [node["id"] for node in nodes if node["models"] and node["state"] == "alive"]


def heartbeat(url: str, token: str, name: str) -> tuple[str, ...]:
    """Flags of a worker that announces itself."""
    return (
        *("--port", "0", "--worker-api", "127.0.0.1:0", "--worker-id", name),
        *("--worker-heartbeat", url, "--worker-heartbeat-token", token),
    )


def test_workers_that_are_killed_are_told_of_truthfully(start: Start) -> None:
    """Between turns another one takes over from what was said; in an answer it is an error."""
    token = token_of(start)
    url = start("gateway", "--port", "0", *LOOPBACK).url()
    always = ("serve", "--backend", "scripted")
    workers = {name: start(*always, *heartbeat(url, token, name)) for name in ("w-a", "w-b")}
    wait(lambda: len(joined(url)) == 2, "both workers have joined")
    first, second = say(url, SAYS), say(url, SAYS)
    home = first.headers["x-roost-node"]
    assert first.text, "something is said"
    assert (second.headers["x-roost-node"], second.served["placement"]) == (home, "warm")
    workers.pop(home).process.kill()
    third = say(url, SAYS)
    (other,) = workers
    assert third.headers["x-roost-node"] == other
    assert third.served["cached_tokens"] == 0
    assert str(third.served["placement"]).startswith("lost"), "and so is its KV"
    wait(lambda: alive(url) == [other], "the dead one is not available")
    cut = say(url, SLOW, then=workers[other].process.kill)
    assert cut.events[-1]["error"] == "Worker connection lost during decode"
    assert cut.events[-1]["reason"] == "error"
    refused = say(url, SAYS, "require")
    assert (refused.status, refused.events[0]["reason"]) == (409, "session_gone")
    assert say(url, SAYS).status == 503


@pytest.mark.engine
def test_a_real_model_talks_through_a_worker_of_system_1(start: Start, tmp_path: Path) -> None:
    """SmolLM2 remembers over turns that send their own words alone, and computes only those."""
    token = token_of(start)
    url = start("gateway", "--port", "0", *LOOPBACK).url()
    model = "smollm2-135m-instruct"
    limits = ("--slots", "2", "--ctx", "2048", "--threads", "1", "--runtime-stall-floor-s", "60")
    always = ("serve", str(smollm2_path()), *heartbeat(url, token, "w-a"), *limits)
    with Roost(tmp_path / "worker", *always, home=tmp_path / "other") as worker:
        wait(lambda: joined(url) == ["w-a"], "the worker has joined")
        talk = ["I have three cats: Tom, Kit and Ada. " * 8, "Name my cats.", "And the last one?"]
        turns = [say(url, words, model=model) for words in talk]
        assert turns[0].served["cached_tokens"] == 0
        for before, turn in pairwise(turns):
            known = int(str(before.served["prompt_tokens"]))
            assert int(str(turn.served["cached_tokens"])) >= 0.95 * known
            assert turn.served["placement"] == "warm"
            assert turn.headers["x-roost-node"] == "w-a"
        answers = [turn.text for turn in turns]
        whole = chatted(worker.url(), model, [talk[0], answers[0], talk[1], answers[1], talk[2]])
        assert answers[2] == whole, "it knew everything that was said, and nothing else"
        held = json.loads(fetch(url, "/coordinator/stats"))["workers"][0]["sessions"]
        assert len(held) == 1, "one conversation is one session"
