"""What a run says."""

from __future__ import annotations

import random

from roost.bench.drills.answers import Answer
from roost.bench.loads import LOADS, STEADY, Block, Counted
from roost.bench.peers.deaths import Death
from roost.bench.report import bars, cpu_ratio, ratios, side_by_side, table

ONE, MANY = LOADS[0].name, LOADS[1].name


def block(variant: str, load: str = MANY, cpu_ms: float = 1.0, first_us: float = 1000.0) -> Block:
    """Build a block of ten requests in two seconds."""
    counted = Counted(10, 0, 650, 2.0, 0.1, first_us, 2 * first_us, 3 * first_us, 4 * first_us)
    return Block(variant, load, counted, cpu_ms, 20.0)


def run() -> list[Block]:
    """Build a run of three variants under two loads."""
    blocks = []
    for load in (ONE, MANY):
        blocks += [block("direct", load, 0.0, 200.0)] * 2
        blocks += [block("roost", load, 0.3, 700.0)] * 2
        blocks += [block("smg", load, 0.6, 900.0)] * 2
    return blocks


def test_table_shows_medians_and_what_is_added() -> None:
    """One line per variant that was measured; latency is the difference to no gateway."""
    lines = table(run(), MANY, ["direct", "roost", "smg", "nginx"]).splitlines()
    assert lines[0] == MANY
    assert [line.split()[0] for line in lines[3:]] == ["direct", "roost", "smg"]
    ours = lines[4].split()
    assert ours == [
        *("roost", "0.300", "0.0150", "4.62", "5", "325"),
        *("+0.500", "+1.000", "+1.500", "+2.000", "0"),
    ]
    assert len({len(line) for line in lines[1:]}) == 1


def test_ratios_name_every_peer() -> None:
    """Each peer under each load that was run has a line."""
    text = ratios(run(), ["direct", "roost", "smg"], random.Random(0))
    assert text.count("smg") == 2
    assert "0.50  (0.50 to 0.50)" in text
    assert "direct" not in text
    assert cpu_ratio(run(), MANY, "nginx", random.Random(0)) is None


def test_bars() -> None:
    """Goals are judged by what was measured, and left out where it was not."""
    judged = {
        bar.name: (round(bar.value, 3), bar.met) for bar in bars(run(), 5.0, random.Random(0))
    }
    assert judged == {
        "`roost --help` over `python -c pass`": (5.0, False),
        "added p50 in ms at c=1": (0.5, True),
        f"CPU per request over smg, {ONE}": (0.5, True),
        f"CPU per request over smg, {MANY}": (0.5, True),
    }
    alone = [b for b in run() if b.variant != "smg"]
    assert len(bars(alone, 2.0, random.Random(0))) == 2


def test_a_table_of_all_says_how_streams_end() -> None:
    """CPU and latency as ratios of ours, and what a death looked like, of those that were seen."""
    blocks = [*run(), *(block(who, STEADY) for who in ("direct", "roost", "smg"))]
    cut = Answer(0.0, 0.0, 1.0, "cut", 200, clean=False)
    gone = Answer(0.0, 0.0, 1.0, "refused", 503, retry_after="1")
    fates = [Death("smg", (cut, cut), gone)]
    text = side_by_side(blocks, fates, ["direct", "roost", "smg"], random.Random(0))
    told = {
        line.strip("| ").split(" | ")[0]: line.strip("| ").split(" | ")
        for line in text.splitlines()[2:]
    }
    assert told["smg"] == [
        *("smg", "0.600", "9.23", "0.50 (0.50 to 0.50)", "2.00", "1.00 (1.00 to 1.00)"),
        *("0 of 10", "broken body", "503, retry-after"),
    ]
    assert told["roost"][3:6] == ["-", "2.00", "-"]
    assert told["direct"][-2:] == ["-", "-"]
