"""Judges of what drills have seen: a good run passes, and of a bad one they say what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from roost.bench.claims import Report, interval
from roost.bench.drills import deaths, drain, failover, outlive, slow_client, stampede, sweep, ties
from roost.bench.drills import unequal as speeds
from roost.bench.drills.answers import Answer, End, rebased
from roost.bench.drills.told import Told


def answer(
    due_s: float = 0.0, took_s: float = 0.2, end: End = "complete", node: str = "a"
) -> Answer:
    """Make an answer that was sent when it was due."""
    status = {"complete": 200, "error": 200, "cut": 200, "refused": 429}.get(end, 0)
    failed = int(end == "error")
    stamps = tuple(due_s + took_s * share for share in (0.25, 0.5, 0.75, 1.0))
    return Answer(
        due_s, due_s, due_s + took_s, end, status, node, stamps=stamps, error_events=failed
    )


def many(count: int, took_s: float, end: End = "complete", node: str = "a") -> tuple[Answer, ...]:
    """Make answers, ten a second."""
    return tuple(answer(n / 10, took_s, end, node) for n in range(count))


def missed(report: Report) -> set[str]:
    """The claims that did not hold."""
    return {check.claim for check in report.checks if not check.met}


def level(share: float, took_s: float, *, admission: bool) -> sweep.Level:
    """One level at which everybody took as long."""
    return sweep.Level(share, 10 * share, admission, many(40, took_s))


def swept(on_s: tuple[float, float, float], off_s: tuple[float, float, float]) -> sweep.Swept:
    """A sweep of three rates, with these latencies."""
    shares = (0.4, 1.2, 2.5)
    levels = [level(share, s, admission=True) for share, s in zip(shares, on_s, strict=True)]
    levels += [level(share, s, admission=False) for share, s in zip(shares, off_s, strict=True)]
    return sweep.Swept(1, 10.0, tuple(levels))


FLAT, RISING = (0.2, 0.21, 0.22), (0.2, 1.0, 4.0)
ON, OFF = "with admission, worst p99 over unloaded p99", "without, p99 grows with the rate"


@pytest.mark.parametrize(
    ("on_s", "off_s", "wrong"),
    [(FLAT, RISING, set()), (RISING, RISING, {ON}), (FLAT, FLAT, {OFF})],
)
def test_a_sweep_is_flat_with_admission_and_rises_without(
    on_s: tuple[float, float, float], off_s: tuple[float, float, float], wrong: set[str]
) -> None:
    """Either half alone is not the experiment's picture."""
    report = sweep.judge(swept(on_s, off_s))
    assert missed(report) == wrong
    assert report.figures["on_p99_ratio"] == pytest.approx(on_s[2] / 0.2)


def test_a_sweep_counts_what_was_neither_served_nor_refused() -> None:
    """An answer that was cut is no latency and no refusal."""
    good = swept(FLAT, RISING)
    cut = msgspec.structs.replace(good.levels[0], answers=(*many(40, 0.2), answer(end="cut")))
    told = sweep.judge(msgspec.structs.replace(good, levels=(cut, *good.levels[1:])))
    assert missed(told) == {"with neither 200 nor 429"}
    point = sweep.point(cut)
    assert (point.asked, point.served, point.shed, point.other) == (41, 40, 0, 1)


def test_the_interval_of_a_quantile_is_of_ranks() -> None:
    """Of a thousand values the 984th to the 998th hold p99; of ten the largest is no bound."""
    values = [float(n) for n in range(1000)]
    assert interval(values, 0.99) == (983.0, 997.0)
    assert interval(values[:10], 0.99) == (9.0, 9.0)
    assert interval([3.0], 0.5) == (3.0, 3.0)


@pytest.mark.parametrize(
    ("gateway", "ordered", "wrong"),
    [
        ({"a": 300, "b": 310, "c": 290}, {"a": 900}, set()),
        ({"a": 900}, {"a": 900}, {"a server's count is off by"}),
        ({"a": 300, "b": 300, "c": 299}, {"a": 900}, {"picks that were answered"}),
        (
            {"a": 300, "b": 310, "c": 290},
            {"a": 450, "b": 450},
            {"by order, share of the first server"},
        ),
    ],
)
def test_ties(gateway: dict[str, int], ordered: dict[str, int], wrong: set[str]) -> None:
    """Even picks pass; one server alone, a pick that was lost, and no bug to cure do not."""
    thrown = {"a": 300, "b": 300, "c": 300}
    assert missed(ties.judge(ties.Picks(900, gateway, thrown, ordered))) == wrong


def failed_over(**changed: object) -> failover.Failover:
    """A failover in which one answer broke; `changed` are other fields."""
    answers = (
        *(answer(n / 10, node="b") for n in range(40)),
        answer(0.9, 0.15, "error", "a"),
    )
    good = failover.Failover(
        kind="nodes",
        members=("a", "b", "c"),
        victim="a",
        killed_s=1.0,
        noticed_s=1.2,
        rejoined_s=2.0,
        answers=answers,
        after=(answer(5.0, node="a"),),
        retried=1,
        held=(0, 0),
    )
    return msgspec.structs.replace(good, **changed)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, set()),
        ({"noticed_s": 9.0}, {"the death is noticed"}),
        ({"held": (0, 2)}, {"leases, places and slots held at the end"}),
        ({"after": (answer(5.0, node="b"),)}, {"the victim serves again"}),
        ({"killed_s": 0.5, "noticed_s": 0.7}, {"error events"}),
        (
            {"answers": (answer(1.5, end="cut", node="b"),)},
            {"cut off without a word, or no answer", "served by the survivors meanwhile"},
        ),
    ],
)
def test_failover(changed: dict[str, object], wrong: set[str]) -> None:
    """Only who had begun on the victim may lose an answer, and with a word."""
    assert missed(failover.judge(failed_over(**changed))) == wrong


def shares(fast: int, slow: int, took_s: float) -> dict[str, tuple[Answer, ...]]:
    """What nodes have served with the default policy; with the other one it is always the same."""
    other = (
        *many(30, 0.2, node="fast"),
        *many(20, 0.2, node="slow-1"),
        *many(20, 0.2, node="slow-2"),
    )
    mine = (
        *many(fast, took_s, node="fast"),
        *many(slow, took_s, node="slow-1"),
        *many(slow, took_s, node="slow-2"),
    )
    return {"predicted": mine, "least_inflight": other}


@pytest.mark.parametrize(
    ("fast", "slow", "took_s", "wrong"),
    [
        (30, 10, 0.2, set()),
        (10, 10, 0.2, {"predicted: fast over slow (speed 3)"}),
        (30, 10, 0.4, {"predicted over least_inflight, p50"}),
    ],
)
def test_unequal(fast: int, slow: int, took_s: float, wrong: set[str]) -> None:
    """The fast one has to get more, and that has to be worth something."""
    assert missed(speeds.judge(speeds.Shares(shares(fast, slow, took_s)))) == wrong


def test_stampede() -> None:
    """One load for all is right; two loads, or somebody left out, are not."""
    good = stampede.Stampede(many(8, 0.2), 1, 1, 1)
    assert missed(stampede.judge(good)) == set()
    twice = msgspec.structs.replace(good, begun=2, runtimes=2)
    assert missed(stampede.judge(twice)) == {"loads begun", "runtimes"}
    refused = msgspec.structs.replace(good, answers=(*many(7, 0.2), answer(end="refused")))
    assert missed(stampede.judge(refused)) == {"not whole"}


def drained(**changed: object) -> drain.Drained:
    """A drain that nobody noticed; `changed` are other fields."""
    good = drain.Drained(
        kind="nodes",
        members=("a", "b", "c"),
        victim="a",
        drained_s=1.0,
        empty_s=1.3,
        back_s=2.0,
        answers=many(40, 0.2, node="b"),
        after=(answer(5.0, node="a"),),
    )
    return msgspec.structs.replace(good, **changed)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, set()),
        ({"answers": (*many(40, 0.2, node="b"), answer(end="error", node="b"))}, {"not whole"}),
        (
            {"answers": (*many(40, 0.2, node="b"), answer(1.5, node="a"))},
            {"given to it while it is drained"},
        ),
        ({"after": ()}, {"it serves again"}),
    ],
)
def test_drain(changed: dict[str, object], wrong: set[str]) -> None:
    """An error, new work for the drained one, and one that stays away are found."""
    assert missed(drain.judge(drained(**changed))) == wrong


def slow(**changed: object) -> slow_client.Slow:
    """A run in which nobody noticed the stuck ones; `changed` are other fields."""
    good = slow_client.Slow(
        where="roost serve",
        alone=answer(),
        beside=answer(),
        cut_s=1.0,
        done_marks=0,
        held=0,
        after=many(slow_client.SLOTS, 0.1),
        rss_bytes=(10_000_000, 11_000_000),
    )
    return msgspec.structs.replace(good, **changed)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, set()),
        ({"cut_s": slow_client.NEVER_S}, {"stuck clients cost their place for"}),
        ({"done_marks": 1}, {"stuck clients told [DONE]"}),
        ({"held": 1}, {"held afterwards"}),
        ({"rss_bytes": (10_000_000, 90_000_000)}, {"memory grew by"}),
        ({"after": many(1, 0.1)}, {"every slot serves"}),
        (
            {"beside": answer(took_s=2.0)},
            {"its gaps beside stuck clients over alone, p50", "the same, p99"},
        ),
    ],
)
def test_slow_clients(changed: dict[str, object], wrong: set[str]) -> None:
    """Whatever a stuck client may do to others is found."""
    assert missed(slow_client.judge(slow(**changed))) == wrong


def death(phase: deaths.Phase, *ends: End, held: int = 0) -> deaths.Round:
    """One kill, after which answers ended so."""
    return deaths.Round(phase, "a", tuple(answer(end=end) for end in ends), held)


@pytest.mark.parametrize(
    ("bad", "wrong"),
    [
        (death("prefill", "complete", "error"), "in prefill: answered elsewhere"),
        (death("decode", "complete", "complete"), "in decode: one error event each, never [DONE]"),
        (death("decode", "error", "cut"), "in decode: ended in any other way"),
        (death("replay", "complete", "error"), "in replay: gone on with elsewhere"),
        (death("decode", "complete", "error", held=1), "in decode: held afterwards"),
    ],
)
def test_deaths(bad: deaths.Round, wrong: str) -> None:
    """Each phase has its own right ending."""
    good = (
        death("prefill", "complete", "complete"),
        death("decode", "complete", "error"),
        death("replay", "complete", "complete"),
    )
    after = (answer(node="a"), answer(node="b"))
    assert missed(deaths.judge(deaths.Deaths(False, good, after))) == set()
    assert missed(deaths.judge(deaths.Deaths(False, (*good, bad), after))) == {wrong}
    assert missed(deaths.judge(deaths.Deaths(False, good, after[:1]))) == {"they serve again"}


def told(end: str = "complete", placement: str = "warm") -> Told:
    """One turn."""
    return msgspec.convert({"end": end, "placement": placement}, Told)


BREAKS: tuple[tuple[Callable[[outlive.Outlived], outlive.Outlived], str], ...] = (
    (lambda s: msgspec.structs.replace(s, lies=("it was not moved",)), "told what is not true"),
    (lambda s: msgspec.structs.replace(s, unserved=1), "conversations that did not go on"),
    (lambda s: msgspec.structs.replace(s, moved=1), "idle conversations that were moved"),
    (
        lambda s: msgspec.structs.replace(s, meanwhile=(told("error"),)),
        "errors while a node was drained",
    ),
    (
        lambda s: msgspec.structs.replace(s, turns=((told(),),)),
        "turns that had lost their home and were told",
    ),
)


@pytest.mark.parametrize(("broken", "wrong"), BREAKS)
def test_conversations(broken: Callable[[outlive.Outlived], outlive.Outlived], wrong: str) -> None:
    """A lie, a conversation that ends, an error and a move that did not come are found."""
    good = outlive.Outlived(((told(placement="lost"),),), (), 0, (told(),), 1.0, 2, 2)
    assert missed(outlive.judge(good)) == set()
    assert missed(outlive.judge(broken(good))) == {wrong}


def test_times_are_kept_from_the_first_on() -> None:
    """To a tenth of a millisecond; arrivals are kept where they are needed."""
    late = answer(1000.00004, 0.2)
    (kept,) = rebased([late], 1000.0, stamps=False)
    assert (kept.due_s, kept.ended_s, kept.stamps) == (0.0, 0.2, ())
    (whole,) = rebased([late], 1000.0, stamps=True)
    assert whole.stamps == (0.05, 0.1, 0.15, 0.2)
