"""Results as a page and as a table: everything that was measured, losses too, and nothing else."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from roost.bench.load.curves import Curve, nice, plot
from roost.bench.load.environment import environment
from roost.bench.load.measure import Result
from roost.bench.load.page import figure, markdown, page, rows_of
from roost.bench.load.sample import Played, Sample
from roost.bench.load.summary import Slo, summary


def result(*ttfts_s: float, failed: int = 0) -> dict[str, object]:
    """Make a result file of answers with these first tokens."""
    good = [
        Sample("m", 0.0, 0.0, 1.0 + t, "ok", ttft_s=t, gaps_s=(0.1, 0.2), completion_tokens=3)
        for t in ttfts_s
    ]
    bad = [Sample("m", 0.0, 0.0, 1.0, "failed", "cut") for _ in range(failed)]
    played = Played((*good, *bad), 0, 10.0)
    told = Result(summary(played, Slo()), {"flags": "<b>"}, environment("now"), None, None)
    found: dict[str, object] = json.loads(json.dumps(told.flat(played.samples)))
    return found


class _Seen(HTMLParser):
    """What a browser would make of a page: its tags, and what it would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_stands_alone() -> None:
    """Tags close, nothing is fetched, names are escaped; curves for samples and for levels."""
    sweep = {"levels": [{**result(0.1 * n, 0.2), "level": n} for n in (1, 2, 4)]}
    rows = rows_of("<one>", result(0.2, 0.4, 0.3, failed=1)) + rows_of("sweep", sweep)
    seen = _Seen()
    text = page(rows)
    seen.feed(text)
    assert seen.open == []
    assert seen.fetched == []
    assert "<one>" not in text
    assert "&lt;b&gt;" in text
    assert seen.tags.count("svg") == 5
    assert seen.tags.count("details") == 4


def test_a_table_has_losses_and_question_marks() -> None:
    """What was not measured is no 0; a bar in a name does not make a column."""
    lines = markdown(rows_of("a|b", result(0.2, 0.4, failed=1))).splitlines()
    assert lines[2].startswith("| a\\|b | 2 | 0 | 1 | 200 | 400 | 400 |")
    assert "| ? |" in lines[2]
    assert {line.replace("\\|", "").count("|") for line in lines} == {15}


@pytest.mark.parametrize("wrong", [{}, {"ok": 1}, {"levels": [{}]}, {"levels": [3]}])
def test_what_is_no_result_is_refused(wrong: dict[str, object]) -> None:
    """By its name."""
    with pytest.raises(ValueError, match="x is no result"):
        rows_of("x", wrong)


def test_figures_are_found_by_path() -> None:
    """A figure that is not there is not known."""
    assert figure({"a": {"b": 2}}, "a.b") == 2.0
    assert figure({"a": None}, "a.b") is None


@pytest.mark.parametrize(
    ("most", "end"), [(0, 1), (0.7, 1), (1, 1), (1.1, 2), (2.2, 2.5), (980, 1000)]
)
def test_axes_end_at_round_numbers(most: float, end: float) -> None:
    """Not far above the highest point."""
    assert nice(most) == pytest.approx(end)


def test_a_curve_is_where_its_points_are() -> None:
    """The highest point of a curve is the highest on the page, and 0 is on the axis."""
    drawn = plot("t", [Curve("c", ((0.0, 0.0), (10.0, 100.0)))])
    assert 'points="70.0,280.0 740.0,36.0"' in drawn
