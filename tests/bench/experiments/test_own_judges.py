"""Judges of experiments that are no drills: each accepts a good run, and names what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import pytest

from roost.bench import residency
from roost.bench.claims import Check
from roost.bench.drills.answers import Answer, End
from roost.bench.drills.stage import Counts, FleetView, Node, Runtime, Slot
from roost.bench.experiments import (
    e05_capacity,
    e06_incremental,
    e09_long_talk,
    e12_unrelated,
    e13_concurrency,
    e14_residency,
    e15_state_gate,
    e16_shutdown,
    e17_batching,
)
from roost.bench.experiments.calls import Reply
from roost.bench.experiments.levels import Level
from roost.bench.load.machine import Server
from roost.bench.load.sample import Outcome, Played, Sample
from roost.bench.load.summary import Slo, summary

replace = msgspec.structs.replace


def missed(checks: Iterable[Check]) -> set[str]:
    """The claims that did not hold."""
    return {check.claim for check in checks if not check.met}


def answer(ttft_s: float, ended_s: float, end: End = "complete") -> Answer:
    """An answer whose first data came then."""
    return Answer(0.0, 0.0, ended_s, end, 200, "a", stamps=(ttft_s, ended_s))


def sample(outcome: Outcome = "ok", tokens: int = 4, ttft_s: float = 0.1) -> Sample:
    """One request that took half a second, or that was refused or failed."""
    if outcome != "ok":
        return Sample("m", 0.0, 0.0, 0.01, outcome, "why")
    gaps = ((0.5 - ttft_s) / (tokens - 1),) * (tokens - 1) if tokens > 1 else ()
    return Sample(
        *("m", 0.0, 0.0, 0.5, outcome),
        ttft_s=ttft_s,
        gaps_s=gaps,
        text_chunks=tokens,
        prompt_tokens=20,
        completion_tokens=tokens,
        queue_s=0.0,
    )


def level(users: int, ok: int, shed: int = 0, tokens: int = 4, programs: int = 1) -> Level:
    """A level of half a second for each user's request."""
    samples = (*(sample(tokens=tokens),) * ok, *(sample("shed"),) * shed)
    view = FleetView((Node("n", "alive", 0, (Runtime((Slot(busy=False),)),)),), Counts(0, 0, 0, {}))
    figures = summary(Played(samples, 0, 0.5 * ok / users), Slo())
    begun, over = Server(3, 1_000_000, 1.0), Server(3, 1_000_000, 1.0 + ok / (10 + users))
    return Level(users, figures, samples, "hash", view, view, begun, over, programs)


# E5


def capacity() -> e05_capacity.Seen:
    """A server of four slots and four places that was measured well."""
    stress = (level(4, 16), level(8, 16), level(16, 6, 10))
    found = {"admission": 8, "slo": 8}
    return e05_capacity.Seen(4, 4, 4, level(4, 20), stress, (level(8, 16),), found)


def test_e5_a_limit_that_is_known_is_found() -> None:
    """A knee in the wrong place, and answers of one token, are no measurement."""
    good = capacity()
    assert missed(e05_capacity.judge(good).checks) == set()
    no_knee = replace(good, stress=good.stress[:2])
    assert missed(e05_capacity.judge(no_knee).checks) == {"the ramp's knee, users"}
    for users, claim in ((3, "and there are slots"), (9, "and there are places")):
        wrong = replace(good, users={"admission": users, "slo": 8})
        told = missed(e05_capacity.judge(wrong).checks)
        assert told == {f"users who are all admitted, {claim}"}
    short = replace(good, bench=level(4, 20, tokens=1))
    assert "bench: answers shorter than asked for" in missed(e05_capacity.judge(short).checks)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"ok": 19}, "answers are counted"),
        ({"tokens_per_s": 900.0}, "throughput is tokens over time"),
        ({"completion_tokens": 7}, "tokens are added up"),
    ],
)
def test_e5_figures_that_are_not_those_of_their_samples_are_found(
    changed: dict[str, object], wrong: str
) -> None:
    """Whoever changes a figure alone is found out by the samples."""
    good = level(4, 20)
    assert e05_capacity.inconsistent(good) == []
    bad = replace(good, figures=replace(good.figures, **changed))
    assert f"4 users: not so: {wrong}" in e05_capacity.inconsistent(bad)


# E6


def test_e6_first_tokens_are_compared() -> None:
    """Everything at the end is what must be seen at the end, and nowhere else."""
    whole_s = e06_incremental.PIECES * e06_incremental.STEP_MS / 1000
    late, soon = (answer(whole_s, whole_s),), (answer(0.03, whole_s),)
    good = e06_incremental.Seen(late, soon, e06_incremental.Real((0.4,), (2.0,), (2.0,)))
    assert missed(e06_incremental.judged(good).checks) == set()
    held_back = replace(good, in_steps=late)
    assert missed(e06_incremental.judged(held_back).checks) == {
        "first token step by step, in steps"
    }
    slow = replace(good, real=e06_incremental.Real((1.9,), (2.0,), (2.0,)))
    assert missed(e06_incremental.judged(slow).checks) == {
        "real: a whole reply over a stream's first token"
    }
    cut = replace(good, at_end=(answer(whole_s, whole_s, "cut"),))
    assert missed(e06_incremental.judged(cut).checks) == {"every answer is whole"}


# E9


def talk(**changed: object) -> e09_long_talk.Talk:
    """A talk of four turns that outgrew its context; `changed` are other fields."""
    turns = (
        e09_long_talk.Turn(200, "", "cold", 60),
        e09_long_talk.Turn(200, "", "warm", 95),
        e09_long_talk.Turn(200, "", "moved(compacted)", 50),
        e09_long_talk.Turn(200, "", "warm", 80),
    )
    good = e09_long_talk.Talk(100, turns, 8, 4, ("A fact.",), "A fact. And more.")
    return replace(good, **changed)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, set()),
        ({"summary": "And more."}, {"facts in the summary"}),
        ({"messages": 7}, {"all turns are in one conversation, word for word"}),
        ({"ctx": 90}, {"largest prompt, in contexts"}),
        (
            {"turns": (*talk().turns, e09_long_talk.Turn(409, "session_full"))},
            {
                "turns that were not answered",
                "409",
                "all turns are in one conversation, word for word",
            },
        ),
    ],
)
def test_e9_a_long_talk(changed: dict[str, object], wrong: set[str]) -> None:
    """A refusal, a lost fact, a lost turn and a prompt that is too long are found."""
    assert missed(e09_long_talk.judge(talk(**changed), "E9").checks) == wrong


# E12


def test_e12_a_load_beside_another() -> None:
    """The other one is answered, and while the first still loads."""
    good = e12_unrelated.Real(200, 200, 1.0, held_waited=True)
    assert missed(e12_unrelated.judge(good).checks) == set()
    after = replace(good, held_waited=False)
    assert missed(e12_unrelated.judge(after).checks) == {"while the first still loads"}
    lost = replace(good, held_status=503)
    assert missed(e12_unrelated.judge(lost).checks) == {"the first is answered then"}
    slow = residency.Figures((0.5,), (900.0, 900.0, 900.0), 10.0)
    told = e12_unrelated.judged(e12_unrelated.Seen(slow, good))
    assert missed(told.checks) == {"many models: second load, all but the slowest"}


# E13


def concurrency() -> e13_concurrency.Seen:
    """Levels that carry more with more users, on one process for each model."""
    one = (level(1, 8), level(8, 8))
    three = (level(1, 12, programs=3), level(8, 12, programs=3))
    return e13_concurrency.Seen(8, one, three, level(1, 3))


def test_e13_processes_follow_models_and_nothing_is_lost() -> None:
    """Six copies for six clients, a lost request and a fall of throughput are found."""
    good = concurrency()
    assert missed(e13_concurrency.judge(good).checks) == set()
    copies = replace(good, one=(level(1, 8), level(8, 8, programs=6)))
    assert missed(e13_concurrency.judge(copies).checks) == {
        "processes that run a model, for three models"
    }
    falls = replace(good, three=good.three[::-1])
    assert missed(e13_concurrency.judge(falls).checks) == {
        "3 models: a CPU second is worth as much"
    }
    lost = replace(good, cold=level(1, 2, 1))
    assert missed(e13_concurrency.judge(lost).checks) == {"requests that failed or were refused"}


# E14


def turns(**changed: object) -> e14_residency.Turns:
    """Two models that took turns, and one that was busy; `changed` are other fields."""
    acts = tuple(e14_residency.Act(m, 200, "", "", (m,)) for m in ("a", "b", "a"))
    refused = e14_residency.Act("b", 429, "node_busy", "2", ("a",))
    return replace(e14_residency.Turns(acts, refused, "complete", 3), **changed)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, set()),
        ({"loads": 1}, {"each turn is one load"}),
        ({"long_end": "error"}, {"its answer is whole"}),
        (
            {"refused": e14_residency.Act("b", 200, "", "", ("b",))},
            {
                "while one is busy: the capacity error",
                "with a time to come back",
                "the busy one stays",
            },
        ),
        (
            {"refused": e14_residency.Act("b", 429, "node_busy", "2", ("a", "b"))},
            {"runtimes at a time", "the busy one stays"},
        ),
    ],
)
def test_e14_room_for_one(changed: dict[str, object], wrong: set[str]) -> None:
    """Two at a time, and one that was driven out while it worked, are found."""
    assert missed(e14_residency.judge(turns(**changed), "E14").checks) == wrong


# E15


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, set()),
        ({"hasty_status": 200, "hasty_reason": ""}, {"who does not wait is told"}),
        ({"saved_s": 0.5}, {"and not before the answer", "a request beside is served meanwhile"}),
        ({"other_s": 9.0}, {"a request beside is served meanwhile"}),
        ({"cached": 0}, {"cached of the next turn's prompt"}),
        ({"saved_status": 409}, {"the save is done"}),
        ({"held_end": "error"}, {"the answer is whole"}),
    ],
)
def test_e15_a_save_waits_for_its_slot(changed: dict[str, object], wrong: set[str]) -> None:
    """A save that comes too soon, stops others or is worth nothing is found."""
    good = e15_state_gate.Gate(409, "state_busy", 200, 3.1, "complete", 3.0, 200, 1.0, 100, 90)
    assert missed(e15_state_gate.judge(replace(good, **changed), "E15").checks) == wrong


# E16


def shutdown(**changed: object) -> e16_shutdown.Seen:
    """An end of which all were told; `changed` are other fields."""
    active = Answer(0.0, 0.0, 2.0, "error", 200, code="draining", error_events=1)
    told = Answer(0.0, 0.0, 2.0, "refused", 503, code="draining", retry_after="5")
    return replace(e16_shutdown.Seen((active, told, told), 143, 1.5, 6, 0), **changed)


SILENT = Answer(0.0, 0.0, 2.0, "silent")


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, set()),
        ({"code": 137}, {"exit code"}),
        ({"left": 1}, {"of 6 descendants are left"}),
        ({"took_s": 60.0}, {"the end took"}),
        (
            {"answers": (*shutdown().answers[:2], SILENT)},
            {"the others get 503", "and are told when to come back"},
        ),
        (
            {"answers": (answer(0.1, 2.0), *shutdown().answers[1:])},
            {"the active one ends in one error event"},
        ),
    ],
)
def test_e16_an_end_in_the_middle(changed: dict[str, object], wrong: set[str]) -> None:
    """Whoever is not told, what is left, and a wrong code are found."""
    assert missed(e16_shutdown.judge(shutdown(**changed)).checks) == wrong


# E17


def batches(*walls_s: float, texts: tuple[str, ...] = ("x", "y")) -> tuple[e17_batching.Batch, ...]:
    """The same answers on 1, 2, 4 slots, in these times."""
    slots = (1, 2, 4, 8)
    return tuple(
        e17_batching.Batch(n, wall_s, wall_s, 100, (200, 200), texts)
        for n, wall_s in zip(slots, walls_s, strict=False)
    )


WORTH = "real model: tokens per CPU second, most slots over one"
BREAKS: tuple[tuple[Callable[[e17_batching.Seen], e17_batching.Seen], str], ...] = (
    (lambda s: replace(s, scripted=batches(4.0, 4.0, 2.0)), "scripted: each step brings more"),
    (
        lambda s: replace(s, scripted=(*s.scripted[:2], *batches(1.0, texts=("x", "z")))),
        "scripted: answers are those of one slot",
    ),
    (lambda s: replace(s, real=batches(4.0, 4.0)), WORTH),
    (
        lambda s: replace(s, real=(s.real[0], replace(s.real[1], statuses=(200, 429)))),
        "requests that were not answered",
    ),
)


@pytest.mark.parametrize(("broken", "wrong"), BREAKS)
def test_e17_batching(broken: Callable[[e17_batching.Seen], e17_batching.Seen], wrong: str) -> None:
    """No rise, other words and a refusal are found; other words of a real model are reported."""
    good = e17_batching.Seen(batches(4.0, 2.0, 1.0), batches(4.0, 2.0))
    assert missed(e17_batching.judge(good).checks) == set()
    assert missed(e17_batching.judge(broken(good)).checks) == {wrong}
    other = replace(good, real=(good.real[0], replace(good.real[1], texts=("x", "z"))))
    assert e17_batching.equal(other.real) == [1.0, 0.5]
    assert missed(e17_batching.judge(other).checks) == set()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"error": {"code": "queue_full"}}', "queue_full"),
        (b'{"reason": "state_busy"}', "state_busy"),
        (b'{"error": "no"}', ""),
        (b"<html>", ""),
        (b"[1]", ""),
    ],
)
def test_reasons_of_refusals_are_read_in_every_dialect(raw: bytes, reason: str) -> None:
    """What is no reason is none, and never raises."""
    assert Reply(400, {}, raw).reason == reason
