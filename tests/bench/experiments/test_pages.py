"""From a run to its record, and from records to pages and pictures; what is stored is current."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from roost.bench.claims import Report, at_most, none_of
from roost.bench.experiments import __main__ as verb
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.pages import Told, index, page
from roost.bench.experiments.pictures import svg
from roost.bench.experiments.record import Record, read, written
from roost.bench.experiments.telling import About, Bars, Lines, Verdict, left_over, points, verdict
from roost.bench.load.curves import Curve
from roost.bench.load.environment import environment
from tests.source import ROOT

STORED = ROOT / "docs" / "experiments"
ABOUT = About(
    name="E1",
    title="A title",
    question="\nIs it\nso?",
    method="\nDo this.\n\nThen\nthat.",
    accept="It is.",
    shows="Something.",
    hides="Much.",
)
BARS = Bars("counts", "picks", ("a", "b"), (("one", (1.0, 2.0)), ("two & more", (0.0, 3.0))))
LINES = Lines("p99", "rate", "ms", (Curve("with", ((1.0, 2.0), (2.0, 2.0))),))


class Plan(msgspec.Struct, frozen=True):
    """What is planned."""

    count: int = 3


class Seen(msgspec.Struct, frozen=True):
    """What is seen."""

    values: tuple[float, ...]


async def run(house: House, plan: Plan) -> Seen:
    """See as many values as are planned."""
    return Seen(tuple(float(n) for n in range(plan.count)))


def judge(seen: Seen) -> Verdict:
    """Claim that no value is above 2."""
    worst = max(seen.values)
    checks = (at_most("worst", worst, 2.0),)
    return verdict([Report("E1", ("a table",), {"worst": worst}, checks)], BARS, LINES)


def record(*values: float, held: dict[str, str] | None = None) -> Record:
    """The record of a run that has seen these values."""
    where = environment("2026-01-02T03:04:05+00:00")
    seen = msgspec.Raw(msgspec.json.encode(Seen(values)))
    return Record("E1", "--only E1", {"count": 3}, where, "", 1.5, held or {}, seen)


def told(*values: float) -> Told:
    """A run that has seen these values, judged."""
    return Told(ABOUT, record(*values), judge(Seen(values)))


async def test_an_experiment_is_played_and_judged_from_what_it_wrote() -> None:
    """What was seen is kept as JSON, and the verdict comes out of that."""
    experiment = Experiment(ABOUT, Plan(), Seen, run, judge)
    seen = await experiment.play(House(None))
    assert bytes(seen) == b'{"values":[0.0,1.0,2.0]}'
    assert experiment.planned == {"count": 3}
    assert experiment.judged(seen).missed == []
    with pytest.raises(msgspec.ValidationError):
        experiment.judged(msgspec.Raw(b'{"values":"none"}'))


def test_a_record_comes_back_as_it_was() -> None:
    """All of it, what was seen included; another form is refused."""
    before = record(1.0, 2.0)
    after = read(written(before))
    assert bytes(after.seen) == bytes(before.seen)
    assert after.environment == before.environment
    with pytest.raises(ValueError, match="form 7"):
        read(written(msgspec.structs.replace(before, form=7)))


def test_a_page_says_what_was_asked_seen_and_judged() -> None:
    """Points become lines, tables are kept, and where it ran is told."""
    text = page(told(1.0, 2.0))
    for part in (
        "# E1 A title\n\nIs it so?\n\n**Accepted: all 1 claims held.**\n",
        "- Do this.\n- Then that.\n",
        "```\nmake experiments ONLY=E1\n```",
        "```text\na table\n```",
        "| held | worst | 2 (at most 2) |",
        "## What it does not show\n\n- Much.\n",
        "![counts](E1.svg)",
        "![p99](E1-2.svg)",
        "| at | 2026-01-02T03:04:05+00:00 |",
        '| plan | `{"count":3}` |',
        "| raw | [E1.json](raw/E1.json) |",
    ):
        assert part in text
    assert "load average" in text


def test_a_claim_that_did_not_hold_is_in_the_first_lines() -> None:
    """Negative results are results."""
    text = page(told(9.0))
    assert "**Not accepted: 1 of 1 claims did not hold.** worst: 9 (at most 2)\n" in text
    assert "| **missed** | worst | 9 (at most 2) |" in text


def test_the_index_has_the_graph_and_a_line_for_each() -> None:
    """Those that were not run are listed too."""
    other = msgspec.structs.replace(ABOUT, name="E2")
    text = index([told(9.0)], [other])
    assert "![counts](E1.svg)" in text
    assert "| [E1 A title](E1.md) | Is it so? | Not accepted: 1 of 1" in text
    assert "| E2 A title | Is it so? | not run |" in text
    assert "![" not in index([], [other])


def test_reports_of_one_experiment_are_told_apart() -> None:
    """With one report names stay as they are; with two each says whose it is."""
    one, two = (Report(name, ("t",), {"n": 1.0}, (none_of("lost", 0),)) for name in ("a", "b"))
    assert list(verdict([one]).figures) == ["n"]
    both = verdict([one, two])
    assert list(both.figures) == ["a: n", "b: n"]
    assert [check.claim for check in both.checks] == ["a: lost", "b: lost"]
    assert both.tables == ("a:", "t", "b:", "t")


def test_who_holds_something_at_the_end_is_a_claim_that_was_missed() -> None:
    """And is named."""
    assert left_over({}).met
    held = left_over({"gateway": "one lease"})
    assert (held.met, held.seen) == (False, "gateway: one lease")


def test_points_are_parted_by_empty_lines() -> None:
    """Other line ends mean nothing."""
    assert points("\na\nb\n\nc  d\n\n") == ("a b", "c d")


@pytest.mark.parametrize("picture", [BARS, LINES])
def test_pictures_are_whole_files_with_all_their_words(picture: Bars | Lines) -> None:
    """They parse as SVG by themselves."""
    root = ET.fromstring(svg(picture))  # noqa: S314 - written two lines above
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = {element.text for element in root.iter() if element.text}
    wanted: Sequence[str] = (
        ("counts", "picks", "one", "two & more", "a", "b")
        if isinstance(picture, Bars)
        else ("p99", "rate", "ms", "with")
    )
    assert set(wanted) <= words


def test_bars_are_as_high_as_their_values() -> None:
    """The tallest is three times the lowest that is not nothing."""
    root = ET.fromstring(svg(BARS))  # noqa: S314 - written here
    heights = [float(one.attrib["height"]) for one in root.iter() if one.tag.endswith("rect")]
    assert heights[3] == pytest.approx(3 * heights[0], abs=0.2)
    assert heights[2] == 0.0


@pytest.mark.parametrize(
    "words",
    [("--only", "E99"), ("--only", "E1"), ("--real", "no-such-file")],
)
def test_a_command_line_that_cannot_work_says_so_before_anything_runs(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown name, a real experiment without a model, and a model that is not there."""
    with pytest.raises(SystemExit) as ended:
        verb.main([*words, "--out", str(tmp_path)])
    assert ended.value.code == 2
    told_words = capsys.readouterr().err
    assert any(word in told_words for word in ("E99", "need a model", "has to be a file"))
    assert list(tmp_path.iterdir()) == []


def test_names_are_those_of_their_pages() -> None:
    """Each once, in the order of their numbers, and each has what a page needs."""
    names = list(verb.known())
    assert len(names) == len(verb.EXPERIMENTS)
    assert names == sorted(names, key=lambda name: int(name[1:]))
    for one in verb.EXPERIMENTS:
        about = one.about
        assert all(points(text) for text in (about.question, about.method, about.accept))
        assert all(points(text) for text in (about.shows, about.hides))
        assert one.planned


def test_stored_pages_are_what_their_records_say() -> None:
    """`python -m roost.bench.experiments --pages` writes them anew; nothing else may."""
    every = verb.told_all(STORED)
    assert every
    stored = {p.name: p.read_text("utf-8") for p in STORED.iterdir() if p.is_file()}
    assert stored == verb.pages(every)
