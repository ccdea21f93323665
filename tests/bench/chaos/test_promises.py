"""Verdicts: a good run keeps everything, and each promise is broken on purpose and found out."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest

from roost.bench.chaos.promises import CUT_S, PROMISES, verdicts
from roost.bench.chaos.schedule import FAULTS
from roost.bench.chaos.seen import Manner, Seen, Spoken, Struck, Talked
from roost.bench.chaos.soak import MIB, READINGS_MIN, Reading
from roost.bench.chaos.words import lines, struck
from roost.bench.drills.answers import Answer, End
from tests.source import ROOT

replace = msgspec.structs.replace
WHOLE = "0 1 2 3 "


def answer(at_s: float, end: End = "complete", node: str = "b", text: str = WHOLE) -> Answer:
    """An answer of a second, as a client that is told the truth sees it."""
    status = {"complete": 200, "error": 200, "cut": 200, "refused": 429}.get(end, 0)
    return Answer(
        *(at_s, at_s, at_s + 1.0, end, status, node),
        code="node_lost" if end == "error" else "queue_full" if end == "refused" else "",
        retry_after="2" if end == "refused" else "",
        done_marks=int(end == "complete"),
        error_events=int(end == "error"),
        text=text if end != "refused" else "",
        clean=end not in ("error", "cut"),
    )


def spoken(one: Answer, manner: Manner = "plain") -> Spoken:
    """A chat with that answer."""
    return Spoken(manner, one, WHOLE)


def good() -> Seen:
    """A run with every fault in which everything was as it should be."""
    figures: dict[str, dict[str, float]] = {
        "kill-node": {"gone": 1, "struck_s": 10.4},
        "stop-node": {"noticed_s": 21.0, "resumed_s": 23.0, "back": 1},
        "restart-gateway": {"nodes_back": 1},
        "drain": {"drained_s": 40.1, "undrained_s": 42.0},
        "slow-client": {"clients": 3},
        "stuck-reader": {"cut_s": 1.2, "done_marks": 0},
        "stampede": {"asked": 24, "whole": 24, "loads": 1},
        "disk-full": {"failed": 0, "full": 1},
        "port-taken": {"told": 1, "code": 1, "unharmed": 1},
    }
    strikes = tuple(
        Struck(fault, "a", 10.0 * n, 10.0 * n + 4.0, figures[fault])
        for n, fault in enumerate(FAULTS, 1)
    )
    chats = (
        spoken(answer(10.0, "error", "a", "0 1 ")),
        spoken(answer(10.0, node="a"), "replay"),
        spoken(answer(10.1)),
        spoken(answer(31.0, "silent", "", "")),
        spoken(answer(50.0), "slow"),
        spoken(answer(61.0)),
        spoken(answer(70.0, "refused", "")),
        spoken(answer(80.0, "left", "b", "0 "), "leaves"),
    )
    looks = tuple(Reading(float(n), "gateway", 7, 80 * MIB, 20, 4, 9) for n in range(READINGS_MIN))
    return Seen(strikes, chats, (Talked("talk", (0, 1, 3), (0, 1, 2, 3)),), {}, looks)


def but(at: int, one: Answer, manner: Manner = "plain") -> Callable[[Seen], Seen]:
    """Put another answer in the place of one."""
    return lambda seen: replace(
        seen, spoken=(*seen.spoken[:at], spoken(one, manner), *seen.spoken[at + 1 :])
    )


def figured(fault: str, **changed: float) -> Callable[[Seen], Seen]:
    """Change figures of a fault."""

    def change(seen: Seen) -> Seen:
        """Give the run with them."""
        return replace(
            seen,
            strikes=tuple(
                replace(one, figures=one.figures | changed) if one.fault == fault else one
                for one in seen.strikes
            ),
        )

    return change


def and_also(one: Answer) -> Callable[[Seen], Seen]:
    """Add an answer."""
    return lambda seen: replace(seen, spoken=(*seen.spoken, spoken(one)))


def _more(at: Reading) -> Reading:
    """One descriptor more each second."""
    return replace(at, descriptors=at.descriptors + round(at.at_s))


TWICE = replace(answer(10.1), done_marks=2)
ERROR_THEN_DONE = replace(answer(10.0, "error", "a", "0 1 "), done_marks=1)
CLEAN_ERROR = replace(answer(10.0, "error", "a", "0 1 "), clean=True)
NO_HINT = replace(answer(70.0, "refused", ""), retry_after="")
EARLY = replace(answer(10.1, "refused", ""), status=502, code="node_lost")
BROKEN: tuple[tuple[str, Callable[[Seen], Seen]], ...] = (
    ("Every request that was accepted ends exactly once", and_also(TWICE)),
    ("Every request that was accepted ends exactly once", and_also(answer(80.0, "silent", "", ""))),
    ("Every request that was accepted ends exactly once", and_also(answer(80.0, "cut"))),
    ("An answer that is cut ends in one error event", but(0, ERROR_THEN_DONE)),
    ("An answer that is cut ends in one error event", but(0, CLEAN_ERROR)),
    ("Text arrives in order", but(4, answer(50.0, text="0 1 3 2 "), "slow")),
    ("Text arrives in order", and_also(answer(80.0, text="0 1 2 "))),
    ("Text arrives in order", but(7, answer(80.0, "left", text="1 "), "leaves")),
    (
        "kill -9 of a machine in mid-answer loses",
        but(1, answer(10.0, node="a", text="0 1 1 2 3 "), "replay"),
    ),
    ("A failure before the first token", and_also(EARLY)),
    ("kill -9 of a node costs", but(0, answer(10.0, "cut", "a", "0 "))),
    ("kill -9 of a node costs", but(2, answer(10.1, "error"))),
    ("A process that is killed with -9 leaves", figured("kill-node", gone=0)),
    ("A node that hangs", and_also(answer(22.0, node="a"))),
    ("A node that hangs", figured("stop-node", back=0)),
    ("A gateway that is started again", figured("restart-gateway", nodes_back=0)),
    (
        "Whoever has read the end of a turn",
        lambda s: replace(s, talked=(Talked("t", (0, 1), (0,)),)),
    ),
    ("Turns of one conversation", lambda s: replace(s, talked=(Talked("t", (0, 1), (1, 0)),))),
    (
        "No turn is called warm",
        lambda s: replace(s, talked=(Talked("t", (0,), (0,), ("it had a home",)),)),
    ),
    ("Nothing new goes to a drained node", and_also(answer(41.0, node="a"))),
    ("A client that does not read", figured("stuck-reader", cut_s=CUT_S + 1)),
    ("A client that does not read", figured("stuck-reader", done_marks=1)),
    ("A client that does not read", but(5, answer(61.0, "error"))),
    ("A client that leaves frees", lambda s: replace(s, held={"gateway": "a lease"})),
    ("Requests for a model that nobody runs", figured("stampede", loads=3)),
    ("The queue is bounded", but(6, NO_HINT)),
    ("A full disk ends no conversation", figured("disk-full", failed=2)),
    ("A gateway whose port is taken", figured("port-taken", told=0)),
    (
        "Under load and faults a gateway",
        lambda s: replace(s, readings=tuple(_more(at) for at in s.readings)),
    ),
)


def test_a_good_run_keeps_every_promise_and_tries_all() -> None:
    """Requests that a killed gateway took along are nobody's broken promise."""
    found = verdicts(good())
    assert {one.promise: one.broken for one in found if one.kept != "kept"} == {}
    assert all(one.tried for one in found)


@pytest.mark.parametrize(("promise", "change"), BROKEN, ids=range(len(BROKEN)))
def test_a_promise_that_is_broken_is_found_out(
    promise: str, change: Callable[[Seen], Seen]
) -> None:
    """It is called broken, with an example."""
    (told,) = [one for one in verdicts(change(good())) if one.promise.startswith(promise)]
    assert told.kept == "broken"
    assert told.broken


def test_every_promise_is_broken_by_some_line_above() -> None:
    """So no verdict is one that cannot be lost."""
    for promise in PROMISES:
        assert any(promise.startswith(beginning) for beginning, _ in BROKEN), promise


def test_without_its_fault_a_promise_is_untried() -> None:
    """It is not kept by not having been put to the test; nor is a disk that was never full."""
    found = {one.promise: one.kept for one in verdicts(Seen((), (), (), {}))}
    assert set(found.values()) == {"untried"}
    never_full = figured("disk-full", full=0)(good())
    (disk,) = [v for v in verdicts(never_full) if v.promise.startswith("A full disk")]
    assert (disk.kept, disk.tried) == ("untried", 0)


def test_promises_are_those_of_the_document() -> None:
    """Word for word: a verdict about anything else is about nothing."""
    text = (ROOT / "GUARANTEES.md").read_text("utf-8")
    promised = set(re.findall(r"^- (.+) — \S+$", text, re.MULTILINE))
    assert set(PROMISES) <= promised


def test_a_run_is_told_with_what_was_broken_first() -> None:
    """Every promise has a line, and each example its own."""
    seen = figured("stampede", loads=3)(good())
    told = lines(seen, verdicts(seen))
    assert told[0].startswith("8 chats: 4 complete")
    assert "3 turns of 1 conversation" in told[0]
    assert told[1].startswith("broken ")
    assert len([line for line in told if line.startswith(("kept", "broken", "untried"))]) == len(
        PROMISES
    )
    assert any("3 loads for so many clients: 24" in line for line in told)
    assert "kill-node" in struck(seen.strikes[0])
