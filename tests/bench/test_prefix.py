"""The benchmark of shared beginnings: it counts what was computed, and the verdict follows that."""

from __future__ import annotations

import random

import pytest

from roost.bench.chat_stream import Told
from roost.bench.drills.stage import Stage
from roost.bench.prefix import Setup, Side, ours, report

SLOW_PREFILL = '@script {"prefill_ms_per_token": 1.0}\n'


@pytest.mark.drill
async def test_a_node_computes_the_beginning_once() -> None:
    """On scripted slots: one of three computes it, and the others find it."""
    with Stage() as stage:
        side = await ours(stage, Setup(3, 80, SLOW_PREFILL), random.Random(1))
    cached = sorted(told.cached for told in side.told)
    assert cached[0] == 0
    assert cached[1] == cached[2] > 400
    assert side.computed < 1.2 * cached[1]
    assert side.last_first_s > 0.4


def test_the_verdict_follows_the_figures() -> None:
    """Bars are about tokens in all over the beginning, and about the last of the first tokens."""
    theirs = Side((Told(1010, 0, 9.0), Told(1010, 0, 10.0)))
    mine = Side((Told(1010, 0, 1.0), Told(1010, 1000, 2.0)))
    good = report(theirs, mine)
    assert good.passed, good.text()
    assert good.figures == {
        "beginning": 1000.0,
        "computed_over_beginning": 1.02,
        "first_tokens_over_stock": 0.2,
    }
    again = Side((Told(1010, 0, 1.0), Told(1010, 900, 2.0)))
    assert not report(theirs, again).passed
    late = Side((Told(1010, 0, 1.0), Told(1010, 1000, 4.0)))
    assert not report(theirs, late).passed
    silent = Side((Told(1010, 0, float("nan")), Told(1010, 1000, 2.0)))
    assert not report(theirs, silent).passed
    nothing = Side((Told(1010, 0, 1.0), Told(1010, 0, 2.0)))
    assert not report(theirs, nothing).passed
