"""DECIDER: a run's faults and verdicts as people read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from roost.bench.chaos.promises import Verdict
from roost.bench.chaos.seen import Seen, Struck
from roost.bench.chaos.soak import Growth, growths
from roost.bench.claims import table

LEVELS = ("process", "least", "sooner", "later", "slack")


def lines(seen: Seen, verdicts: Sequence[Verdict]) -> list[str]:
    """Say what was asked and what was kept, broken promises first."""
    ends = Counter(one.answer.end for one in seen.spoken)
    turns = sum(len(talk.read) for talk in seen.talked)
    asked = ", ".join(f"{count} {end}" for end, count in ends.most_common())
    order = ("broken", "kept", "untried")
    rows = [
        [one.kept, str(one.tried), one.promise]
        for one in sorted(verdicts, key=lambda one: order.index(one.kept))
    ]
    said = [f"{len(seen.spoken)} chats: {asked}; {turns} turns of {len(seen.talked)} conversations"]
    said += [_row(row) for row in rows]
    said += [f"  {one.promise}\n    {words}" for one in verdicts for words in one.broken]
    if held := growths(seen.readings):
        said.append(table(LEVELS, [_level(one) for one in held]))
    return said


def _level(one: Growth) -> list[str]:
    return [one.process, one.figure, f"{one.early:g}", f"{one.late:g}", f"{one.slack:.3g}"]


def _row(row: Sequence[str]) -> str:
    kept, tried, promise = row
    return f"{kept:<7} {tried:>5}  {promise}"


def struck(one: Struck) -> str:
    """Say that a fault is over."""
    figures = ", ".join(f"{name} {value:g}" for name, value in one.figures.items())
    return f"{one.begun_s:6.1f} s  {one.fault:<15} {one.victim}  {figures}"


def planned(rows: Sequence[tuple[float, str, int, float]]) -> str:
    """Lay out a schedule: pause, fault, member, how long."""
    heads = ("after s", "fault", "member", "for s")
    return table(heads, [[f"{p:.1f}", fault, str(m), f"{s:.1f}"] for p, fault, m, s in rows])
