"""What a node's log says of each request, from Open to Released."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.about import RuntimeVitals
from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Usage
from roost.core.ids import ModelId, RequestId, RuntimeId, StreamId, TenantId
from roost.core.request import ChatPrompt, GenerateRequest, Message
from roost.core.snapshots import ModelOffer, NodeStatus, RuntimeView, SlotView
from roost.errors import Failure
from roost.node.run_log import REPORT_S, RunLog
from roost.wire.messages import Events, Open, Refused, Released, Status

MODEL = ModelId("m")
ONE, TWO = StreamId(1), StreamId(2)
Line = tuple[str, str, dict[str, object]]


class Lines:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[Line] = []

    def debug(self, event: str, **facts: object) -> None:
        """Keep it."""
        self.said.append(("debug", event, facts))

    def info(self, event: str, **facts: object) -> None:
        """Keep it."""
        self.said.append(("info", event, facts))

    def warning(self, event: str, **facts: object) -> None:
        """Keep it."""
        self.said.append(("warning", event, facts))

    def error(self, event: str, **facts: object) -> None:
        """Keep it."""
        self.said.append(("error", event, facts))


class World:
    """A log of runs, its lines and its clock."""

    def __init__(self) -> None:
        self.lines = Lines()
        self.now = 100.0
        self.runs = RunLog(self.lines, lambda: self.now)

    def open(self, stream: StreamId = ONE) -> None:
        """A gateway asks for an answer."""
        request = GenerateRequest(MODEL, ChatPrompt((Message("user", "a secret"),)))
        name = RequestId(f"r{stream}")
        self.runs.on_open(7, Open(stream, name, TenantId("key:ann"), request, 8))

    def say(self, *events: StreamEvent, after_s: float = 0.0) -> None:
        """Send the first stream's events."""
        self.now += after_s
        self.runs.on_sent(7, Events(ONE, 0, events))

    def release(self, stream: StreamId = ONE) -> None:
        """Send the last word."""
        self.runs.on_sent(7, Released(stream, "done"))

    def last(self) -> Line:
        """The last line."""
        return self.lines.said[-1]


def test_a_good_answer_is_three_lines_with_the_times_between_them() -> None:
    """A slot, a first text, an end: all under the name that the gateway knows."""
    world = World()
    world.open()
    world.say(Started(50, 10, 3), after_s=0.25)
    world.say(Delta("a word", 1), after_s=0.5)
    world.say(Delta("more", 9))
    world.say(Finished("stop", Usage(50, 10, 11)), after_s=2.0)
    world.release()
    assert world.lines.said == [
        (
            "debug",
            "run_started",
            {
                "request": "r1",
                "model": "m",
                "slot": 3,
                "prompt_tokens": 50,
                "cached_tokens": 10,
                "waited_ms": 250,
            },
        ),
        ("debug", "run_first_text", {"request": "r1", "model": "m", "prefill_ms": 500}),
        (
            "debug",
            "run_ended",
            {
                "request": "r1",
                "model": "m",
                "end": "complete",
                "tokens": 11,
                "seconds": 2.75,
                "phase": "decode",
                "slot": 3,
                "tokens_per_s": 5.0,
            },
        ),
    ]
    assert len(world.runs) == 0
    assert "secret" not in repr(world.lines.said)
    assert "word" not in repr(world.lines.said)


@pytest.mark.parametrize(
    ("reason", "level"),
    [("runtime_error", "warning"), ("cancelled", "debug"), ("deadline", "debug")],
)
def test_a_runtimes_fault_is_a_warning_and_a_clients_wish_is_none(reason: str, level: str) -> None:
    """What ends an answer is named, and where it was then."""
    world = World()
    world.open()
    world.say(Started(5, 0, 0))
    world.say(Failed(Failure(reason, "It is over.")))
    world.release()
    said, event, facts = world.last()
    assert (said, event) == (level, "run_ended")
    assert (facts["end"], facts["phase"], facts["tokens"]) == (reason, "prefill", 0)


def test_who_leaves_without_a_word_is_cancelled_whatever_it_waited_for() -> None:
    """After a cancel there may be no terminal event."""
    world = World()
    world.open()
    world.open(TWO)
    world.say(Started(5, 0, 0), Delta("x", 1))
    world.release()
    assert (world.last()[2]["end"], world.last()[2]["phase"]) == ("cancelled", "decode")
    world.release(TWO)
    assert (world.last()[2]["end"], world.last()[2]["phase"]) == ("cancelled", "waiting")


def test_a_refusal_is_one_line() -> None:
    """With the reason that its gateway was told; what never ran does not end."""
    world = World()
    world.open()
    world.runs.on_sent(7, Refused(ONE, Failure("node_busy", "No slot is free.")))
    world.release()
    assert world.lines.said == [
        ("debug", "run_refused", {"request": "r1", "model": "m", "reason": "node_busy"})
    ]


def test_a_link_that_goes_takes_its_runs_along_and_no_others() -> None:
    """Nothing is kept of a gateway that is not there."""
    world = World()
    world.open()
    world.say(Started(5, 0, 0))
    world.runs.on_link_down(8)
    assert len(world.runs) == 1
    world.runs.on_link_down(7)
    assert (world.last()[2]["end"], len(world.runs)) == ("link_down", 0)
    world.release()
    assert world.last()[2]["end"] == "link_down"


def test_runtimes_that_do_something_are_reported_from_time_to_time() -> None:
    """Every 20 s, with what is known; whoever has done nothing since then is left out."""
    world = World()
    slots = (SlotView(0, busy=True, tokens=30), SlotView(1, busy=False, tokens=10))
    vitals = RuntimeVitals(0.2, 0.1, 12.34, 500, 1)
    view = RuntimeView(MODEL, "llama", "ready", RuntimeId("m#1"), slots, waiting=2, vitals=vitals)
    offer = ModelOffer(MODEL, 2, 64, kv_token_bytes=1000)
    status = NodeStatus((offer,), (view,), 1, 4)
    world.runs.on_sent(7, Status(1, status))
    assert world.lines.said == []
    world.now += REPORT_S
    world.runs.on_sent(7, Status(2, status))
    world.runs.on_sent(8, Status(2, status))
    assert world.lines.said == [
        (
            "info",
            "runtime_report",
            {
                "runtime": "m#1",
                "model": "m",
                "prefill_last_ms": 200,
                "prefill_avg_ms": 100,
                "tokens_per_s": 12.3,
                "generated": 500,
                "failures": 1,
                "busy": 1,
                "waiting": 2,
                "kv_tokens": 40,
                "kv_bytes": 40_000,
            },
        )
    ]
    world.now += REPORT_S
    world.runs.on_sent(7, Status(3, status))
    assert len(world.lines.said) == 1
    world.now += REPORT_S
    more = msgspec.structs.replace(vitals, generated_tokens=501)
    view = msgspec.structs.replace(view, vitals=more)
    world.runs.on_sent(7, Status(4, msgspec.structs.replace(status, runtimes=(view,))))
    assert len(world.lines.said) == 2
