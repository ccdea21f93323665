"""What is never given back is found; what comes and goes, and what fills up early, is not."""

from __future__ import annotations

import pytest

from roost.bench.chaos.soak import MIB, READINGS_MIN, Growth, Reading, growths

LONG = 3 * READINGS_MIN


def reading(number: int, **held: int) -> Reading:
    """One of many looks at a process that is busy at every second of them."""
    busy = number % 2
    figures = {
        "rss_bytes": (80 + busy) * MIB,
        "descriptors": 20 + 10 * busy,
        "threads": 4 + busy,
        "tasks": 9 + 5 * busy,
    }
    return Reading(2.0 * number, "gateway", 7, **{**figures, **held})


def leaks(readings: list[Reading]) -> list[str]:
    """Name the figures that grow."""
    return [found.figure for found in growths(readings) if found.leaks]


def test_what_comes_and_goes_is_no_leak() -> None:
    """The least of it stays where it was, whatever the most is."""
    readings = [reading(number) for number in range(LONG)]
    assert [found.figure for found in growths(readings)] == [
        *("MiB", "descriptors", "threads", "tasks")
    ]
    assert leaks(readings) == []


@pytest.mark.parametrize(
    ("figure", "held"),
    [
        ("MiB", {"rss_bytes": MIB // 4}),
        ("descriptors", {"descriptors": 1}),
        ("threads", {"threads": 1}),
        ("tasks", {"tasks": 1}),
    ],
)
def test_a_little_that_is_never_given_back_is_found(figure: str, held: dict[str, int]) -> None:
    """A quarter of a MiB, a file, a thread or a task with each look."""
    ((name, each),) = held.items()
    readings = [
        reading(number, **{name: int(getattr(reading(0), name)) + each * number})
        for number in range(LONG)
    ]
    assert leaks(readings) == [figure]


def test_a_beginning_may_fill_caches() -> None:
    """What grows in the first third alone is where it was to be."""
    readings = [
        reading(number, rss_bytes=(80 + min(number, LONG // 3)) * MIB) for number in range(LONG)
    ]
    assert leaks(readings) == []


def test_a_process_that_was_started_again_is_another_one() -> None:
    """It is compared with itself alone, and not at all before it has lived long enough."""
    first = [reading(number) for number in range(READINGS_MIN)]
    again = [
        Reading(at.at_s + 100.0, "gateway", 8, 2 * at.rss_bytes, 99, 9, 99) for at in first[:-1]
    ]
    assert growths(again) == []
    assert leaks(first + again) == []


def test_who_tells_no_tasks_is_judged_by_the_rest() -> None:
    """A node has no page of metrics."""
    readings = [Reading(float(n), "node", 9, MIB, 3, 1) for n in range(READINGS_MIN)]
    assert [found.figure for found in growths(readings)] == ["MiB", "descriptors", "threads"]


def test_a_leak_is_said_in_figures() -> None:
    """As the verdict has it."""
    assert str(Growth("gateway", "tasks", 9.0, 31.0, 3.0)) == "gateway: tasks 9, later 31"
