"""Claims about pasts made shorter: each finds what breaks it, and only that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.core.ids import RequestId
from roost.errors import Failure
from roost.fleet.conversations.compacting import ASKED, MARK, CompactionSettings
from roost.sim.claims.checkers import check
from roost.sim.claims.shortening import CLAIMS
from roost.sim.history import History
from roost.sim.request_facts import Shortened, Trace
from tests.sim.test_checkers import history
from tests.sim.test_talk_claims import turn

SAID = "aa bb "
RULES = CompactionSettings(budget_tokens=100, threshold=0.8, tail_pairs=1, debounce_s=30.0)


def short_talk() -> History:
    """Four turns; before the last one the first two became a summary."""
    pasts = ((), ("q1", SAID), ("q1", SAID, "q2", SAID), (ASKED, f"{MARK}s", "q3", SAID))
    turns = [
        turn(f"r{number}", 10.0 * number, past, f"q{number}")
        for number, past in enumerate(pasts, start=1)
    ]
    run = history(*turns)
    run.compaction, run.ctx, run.probed_s = RULES, 1000, 99.0
    last = turns[-1]
    last.summaries = 1
    last.opened[0].at_s = 40.4
    last.opened[0].placement, last.opened[0].label = "moved", "moved"
    last.opened[0].why = "compacted"
    run.runs[-1].began_s = 40.4
    run.shortened = [Shortened(b"c", last.request, "proactive", 40.0, 40.3, 2, "s")]
    run.words = {b"c": tuple(word for number in range(1, 5) for word in (f"q{number}", SAID))}
    return run


def _turns(run: History) -> list[Trace]:
    return list(run.traces.values())


def _another_summary(run: History) -> None:
    run.shortened[0].text = "t"


def _another_tail(run: History) -> None:
    run.shortened[0].covers = 3


def _a_word_is_gone(run: History) -> None:
    run.words[b"c"] = run.words[b"c"][2:]


def _a_turn_ran(run: History) -> None:
    run.shortened[0].began_s = 30.5


def _two_at_once(run: History) -> None:
    first = run.shortened[0]
    again = Shortened(b"c", RequestId("w1"), "worker_drain", 39.5, 40.2, 2, "s")
    run.shortened, _turns(run)[3].summaries = [again, first], 2
    first.trigger = "session_full"


def _too_soon(run: History) -> None:
    early = Shortened(b"c", RequestId("r2"), "session_full", 20.0, 20.0, 0, "")
    run.shortened = [early, *run.shortened]
    for number, one in enumerate(_turns(run)):
        one.summaries = (0, 1, 1, 2)[number]
    run.traces[RequestId("r2")].opened[0].why = "compacted"


def _long_past_sent_again(run: History) -> None:
    third = _turns(run)[2]
    third.held_tokens, third.heard = 70, 10
    run.shortened = []
    _turns(run)[3].opened[0].why = "home"
    words = tuple(word for number in range(1, 4) for word in (f"q{number}", SAID))
    _turns(run)[3].past = (*words, "q4")


def _given_up_too_early(run: History) -> None:
    last = _turns(run)[3]
    last.opened, last.text, last.reached, last.first_byte_s = [], "", "", None
    last.saw_last_event, last.cached_tokens = False, None
    last.endings = [("rejected", Failure("context_length_exceeded", "Too long."))]
    run.words[b"c"] = run.words[b"c"][:-2]
    run.runs.pop()


def _untold(run: History) -> None:
    _turns(run)[3].opened[0].why = "home"


def _told_for_nothing(run: History) -> None:
    _turns(run)[2].opened[0].why = "compacted"


BROKEN = [
    ("shortenings_are_told", _untold),
    ("shortenings_are_told", _told_for_nothing),
    ("conversations_never_fork", _another_summary),
    ("conversations_never_fork", _another_tail),
    ("words_are_never_lost", _a_word_is_gone),
    ("nobody_talks_meanwhile", _a_turn_ran),
    ("nobody_talks_meanwhile", _two_at_once),
    ("compactions_keep_their_distance", _too_soon),
    ("due_pasts_are_compacted", _long_past_sent_again),
    ("long_talks_go_on", _given_up_too_early),
]


@pytest.mark.parametrize(("name", "harm"), BROKEN)
def test_each_claim_can_be_broken(name: str, harm: Callable[[History], None]) -> None:
    """One harm, one violation, of the claim that is meant."""
    run = short_talk()
    harm(run)
    assert {violation.checker for violation in check(run)} == {name}


def test_every_claim_is_exercised_here() -> None:
    """A new claim comes with a history that breaks it."""
    assert {name for name, _ in BROKEN} == {name for name, _, _ in CLAIMS}


def test_a_past_that_became_shorter_breaks_nothing() -> None:
    """A summary, or nothing, for what it covers; the tail and all words as they were."""
    run = short_talk()
    assert check(run) == []
    run.shortened[0].text = ""
    _turns(run)[3].past = ("q3", SAID, "q4")
    assert check(run) == []


def test_what_is_too_long_alone_may_be_refused() -> None:
    """No compaction makes a turn's own words shorter."""
    run = short_talk()
    _given_up_too_early(run)
    run.ctx = 3
    assert check(run) == []
