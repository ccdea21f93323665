"""`roost serve` with SmolLM2: conversations by name, over turns, restarts and idle times."""

from __future__ import annotations

import http.client
import json
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE_S
from tests.smollm2 import smollm2_path
from tests.system.conftest import Start
from tests.system.processes import Roost, fetch, is_ready, wait

MODEL = "smollm2-135m-instruct"
MOST = 24


class Said(NamedTuple):
    """A reply: its text, its last event, and the headers."""

    text: str
    last: dict[str, object]
    headers: dict[str, str]

    @property
    def served(self) -> dict[str, object]:
        """How it was served."""
        roost = self.last["roost"]
        assert isinstance(roost, dict)
        return roost


def say(url: str, conversation: str, prompt: str, most: int = MOST) -> Said:
    """Say something in a conversation and read the answer to its end."""
    parts = urlsplit(url)
    asked = {"conversation_id": conversation, "prompt": prompt, "model": MODEL}
    body = asked | {"max_tokens": most, "temperature": 0}
    with closing(http.client.HTTPConnection(parts.netloc, timeout=PATIENCE_S)) as connection:
        connection.request("POST", "/coordinator/infer", json.dumps(body))
        reply = connection.getresponse()
        raw = reply.read().decode()
        assert reply.status == 200, raw
        headers = {name.lower(): value for name, value in reply.getheaders()}
    events = [json.loads(line[6:]) for line in raw.split("\n") if line.startswith("data: ")]
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert events[-1]["finished"] is True
    return Said("".join(event["token"] for event in events[:-1]), events[-1], headers)


def chatted(url: str, *history: str) -> str:
    """What the model answers to a whole history, sent by a client that keeps it by itself."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(history)]
    body = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": MOST}
    with closing(
        http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    ) as connection:
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        return str(json.loads(connection.getresponse().read())["choices"][0]["message"]["content"])


def serve(folder: Path, number: int, *more: str) -> Roost:
    """Run `roost serve` over one home."""
    arguments = ("serve", str(smollm2_path()), "--port", "0", "--slots", "2", "--ctx", "2048")
    # On a machine that is busy with other tests a slow step is no hang.
    patient = ("--runtime-stall-floor-s", "60")
    log = folder / f"roost-{number}.log"
    return Roost(log, *arguments, *patient, *more, home=folder / "home")


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(240)
def test_a_conversation_remembers_over_turns_and_a_restart(tmp_path: Path) -> None:
    """Each turn sends its own text alone; the past is there, cached, and survives kill -9."""
    turns = ["I have cats: Tom, Kit and Ada. " * 12, "Name them.", "Which is the last?", "And?"]
    said: list[str] = []
    with serve(tmp_path, 1) as roost:
        roost.wait_for("runtime_ready")
        url = roost.url()
        first, second = say(url, "pets", turns[0]), say(url, "pets", turns[1])
        said = [turns[0], first.text, turns[1]]
        assert second.text == chatted(url, *said)
        assert second.text != chatted(url, turns[1])
        assert first.served["cached_tokens"] == 0
        assert second.served["placement"] == "warm"
        assert int(str(second.served["cached_tokens"])) > 100
        roost.signal(signal.SIGKILL)
        roost.ends()
        assert "Tom" not in roost.output
    with serve(tmp_path, 2) as roost:
        roost.wait_for("runtime_ready")
        url = roost.url()
        third, fourth = say(url, "pets", turns[2]), say(url, "pets", turns[3])
        said += [second.text, turns[2], third.text, turns[3]]
        assert third.text == chatted(url, *said[:5])
        assert fourth.text == chatted(url, *said)
        assert int(str(fourth.served["cached_tokens"])) > 100


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(240)
def test_overlapping_turns_run_in_order_and_idle_ones_are_let_go(tmp_path: Path) -> None:
    """Turns sent at once do not run at once; after the idle time the place is let go, no word."""
    with serve(tmp_path, 1, "--conversations-idle-ttl-s", "1") as roost:
        roost.wait_for("runtime_ready")
        url = roost.url()
        say(url, "c", "My name is Bob. Remember it.")
        with ThreadPoolExecutor(3) as pool:
            said = list(pool.map(lambda n: say(url, "c", f"Count to {n}."), range(3, 6)))
        cached = sorted(int(str(one.served["cached_tokens"])) for one in said)
        # Each had the ones before it in its past, so each found more of it computed.
        assert cached[0] < cached[1] < cached[2]
        gone = 'roost_conversations_gone_total{why="idle"} 1.0'
        wait(lambda: gone in fetch(url, "/metrics").decode(), "it is let go")
        later = say(url, "c", "What is my name?")
        assert int(str(later.served["cached_tokens"])) > cached[2]


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(240)
def test_fifteen_turns_beyond_the_context_go_on(tmp_path: Path) -> None:
    """Nothing is refused, whatever has to give way of the past: facts and every word are kept."""
    facts = ("My name is Ingrid Holm.", "I live at 17 Birch Lane.", "My cat Tom is 9.")
    filler = "We talk about the sea and the wind and about long walks."
    small = ("--ctx", "320", "--slots", "1", "--compaction-summariser", "extractive")
    with serve(tmp_path, 1, *small) as roost:
        roost.wait_for("runtime_ready")
        url = roost.url()
        said = [
            say(url, "long", f"{fact} {filler}", most=2) for fact in (*facts, *("Go on.",) * 12)
        ]
        placements = [str(one.served["placement"]) for one in said]
        compacted = placements.count("moved(compacted)")
        assert compacted >= 1
        assert set(placements[1:]) == {"warm", "moved(compacted)"}
        prompts = [int(str(one.served["prompt_tokens"])) for one in said]
        assert max(prompts) < 320
        grown = sum(max(0, after - before) for before, after in pairwise(prompts))
        assert prompts[0] + grown > 320
        shown = json.loads(fetch(url, "/roost/v1/conversations/long"))
        assert len(shown["messages"]) == 30
        assert all(fact in shown["summary"]["text"] for fact in facts)
        receipts = (
            json.loads(fetch(url, f"/roost/v1/requests/{one.headers['x-roost-request-id']}"))
            for one in said
        )
        dropped = [one["compacted"]["dropped_tokens"] for one in receipts if one["compacted"]]
        assert len(dropped) == compacted
        assert min(dropped) > 20
        assert "Ingrid" not in roost.output


def test_a_person_lists_shows_and_removes(start: Start) -> None:
    """`roost conversations`, as somebody types it at the machine that serves."""
    with start("serve", "--backend", "scripted", "--port", "0") as roost:
        url = roost.url()
        wait(lambda: is_ready(url), "it is ready")
        body = {"conversation_id": "a talk", "prompt": "hello", "model": "tiny", "max_tokens": 4}
        with closing(
            http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
        ) as connection:
            connection.request("POST", "/coordinator/infer", json.dumps(body))
            assert b"finished" in connection.getresponse().read()
        listed = start("conversations")
        assert listed.ends() == 0
        assert "a talk  1 turn  " in listed.output
        assert "hello" not in listed.output
        shown = start("conversations", "show", "a talk")
        assert shown.ends() == 0
        assert "user: hello" in shown.output
        assert start("conversations", "rm", "a talk").ends() == 0
        assert start("conversations", "show", "a talk").ends() == 2
        assert start("conversations", "show").ends() == 2
        assert "hello" not in roost.output
