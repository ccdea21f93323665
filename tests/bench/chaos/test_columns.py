"""Gateways of somebody else's are judged by what their clients saw, and of what they offer."""

from __future__ import annotations

import msgspec
import pytest

from roost.bench.chaos.columns import (
    NOT_OFFERED,
    OTHERWISE,
    broken_lines,
    front_verdicts,
    side_by_side,
)
from roost.bench.chaos.promises import PROMISES, Verdict
from roost.bench.chaos.seen import Seen, Spoken, Struck
from roost.bench.drills.answers import Answer, End

replace = msgspec.structs.replace
WHOLE = "0 1 2 3 "
KILLED = Struck("kill-node", "server-1", 10.0, 14.0, {"struck_s": 10.4, "back": 1})
HUNG = Struck(
    "stop-node", "server-2", 20.0, 28.0, {"noticed_s": 23.0, "resumed_s": 27.0, "back": 1}
)
TELLS, COSTS, HANGS = "An answer that is cut ends", "kill -9 of a node costs", "A node that hangs"
ELSEWHERE = "A failure before the first token"


def chat(at_s: float, end: End = "complete", text: str = WHOLE, **more: object) -> Spoken:
    """A chat of a second, whose client does not know who has answered."""
    status = {"complete": 200, "error": 200, "cut": 200, "refused": 502}.get(end, 0)
    answer = Answer(
        at_s, at_s, at_s + 1.0, end, status, done_marks=int(end == "complete"), text=text
    )
    told = replace(answer, error_events=int(end == "error"), clean=end == "complete")
    return Spoken("plain", replace(told, **more), WHOLE)


HONEST = (chat(10.0), chat(10.1, "error", "0 1 "), chat(12.0), chat(24.0))


def judged(*spoken: Spoken, strikes: tuple[Struck, ...] = (KILLED, HUNG)) -> dict[str, Verdict]:
    """Judge chats under both faults, by how the promises begin."""
    found = front_verdicts(Seen(strikes, spoken, (), {}))
    starts = (*NOT_OFFERED, *OTHERWISE, ELSEWHERE)
    return {start: one for start in starts for one in found if one.promise.startswith(start)}


def test_every_beginning_is_that_of_one_promise() -> None:
    """So none is judged twice, or by nobody."""
    for start in (*NOT_OFFERED, *OTHERWISE):
        assert len([promise for promise in PROMISES if promise.startswith(start)]) == 1, start


def test_an_honest_gateway_keeps_what_it_offers() -> None:
    """What it does not offer is said so, and is neither kept nor broken."""
    found = judged(*HONEST)
    assert {found[start].kept for start in NOT_OFFERED} == {"not offered"}
    assert {found[start].kept for start in (*OTHERWISE, ELSEWHERE)} == {"kept"}


@pytest.mark.parametrize(
    ("start", "one"),
    [
        (TELLS, chat(10.0, "cut", "0 ")),
        (TELLS, chat(10.0, "cut", "0 ", clean=True)),
        (TELLS, chat(10.0, "error", "0 ", clean=True)),
        (TELLS, chat(10.0, "error", "0 ", done_marks=1)),
        (COSTS, chat(10.0, "cut", "0 ")),
        (ELSEWHERE, chat(12.0, "refused", "")),
        (ELSEWHERE, chat(12.0, "silent", "")),
        (HANGS, chat(24.0, ended_s=27.3)),
        (HANGS, chat(24.0, "refused", "")),
    ],
)
def test_what_a_client_saw_breaks_a_promise(start: str, one: Spoken) -> None:
    """Beside everybody who was served."""
    assert judged(*HONEST, one)[start].kept == "broken"


def test_chats_that_a_hung_server_explains_break_nothing() -> None:
    """Those before it could be known, and those that ended a moment after it went on."""
    assert judged(*HONEST, chat(21.0, ended_s=27.2), chat(26.5))[HANGS].kept == "kept"


def test_a_server_that_gets_no_work_again_is_told() -> None:
    """Whoever hung has to come back by itself, and somebody has to serve meanwhile."""
    gone = replace(HUNG, figures={**HUNG.figures, "back": 0})
    assert judged(*HONEST, strikes=(gone,))[HANGS].kept == "broken"
    assert judged(chat(10.0, "error", "0 "), strikes=(KILLED,))[COSTS].kept == "broken"


def test_verdicts_stand_beside_each_other() -> None:
    """One row for a promise, one column for a gateway, and examples of what was broken."""
    kept, broken = Verdict("It answers", "kept", 3), Verdict("It answers", "broken", 2, ("at 1 s",))
    none = Verdict("It answers", "not offered", 0)
    columns = {"one": [kept], "other": [broken], "third": [none]}
    assert side_by_side(columns).splitlines() == [
        "| promise | one | other | third |",
        "| --- | --- | --- | --- |",
        "| It answers | kept (3) | broken (2) | not offered |",
    ]
    assert broken_lines(columns) == ["other: It answers\n    at 1 s"]
