"""What the page of capabilities says is what was recorded, and what was recorded is of today."""

from __future__ import annotations

import pytest

from roost.backends.registry import CLASSES, NAMES, make
from roost.core.conformance import NOT_RUN, PROMISES, CaseRun, CaseStatus, SuiteRun, tried, verdict
from roost.testing.conformance import CASES
from tests.record import SUBJECTS, recorded
from tests.reference import capabilities_markdown
from tests.source import ROOT

RUNS = recorded()
KNOWN = {case.name: case for case in CASES}


def test_the_page_is_what_was_recorded() -> None:
    """Every backend has its row, and nothing is marked that was not run."""
    page = (ROOT / "docs/capabilities.md").read_text("utf-8")
    assert page == capabilities_markdown()
    for name in NAMES:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")][:1]
        assert (name in RUNS) or set(row.split("|")[2:-1]) == {f" {NOT_RUN} "}


@pytest.mark.parametrize("name", sorted(RUNS))
def test_a_record_is_of_the_suite_that_there_is(name: str) -> None:
    """Of a backend that there is, of cases that there are, and of nothing that was broken."""
    run = RUNS[name]
    assert name in SUBJECTS
    assert make(name).name == name
    assert run.date
    assert run.subject
    assert run.versions
    assert run.machine
    for case in run.cases:
        assert case.name in KNOWN
        assert (case.promise, case.needs) == (KNOWN[case.name].promise, KNOWN[case.name].needs)
        assert case.status != "broken"


def test_every_backend_has_a_class_and_every_promise_a_name() -> None:
    """So that no page has a gap."""
    assert tuple(sorted(CLASSES)) == NAMES
    assert {case.promise for case in CASES} == set(PROMISES)


def run(*cases: CaseRun, fake: bool = False) -> SuiteRun:
    """Make a record."""
    return SuiteRun("2026-11-30", "a model", "1", "a machine", cases, fake)


@pytest.mark.parametrize(
    ("cases", "claims", "what"),
    [
        (("kept", "kept"), {"a"}, "pass"),
        (("kept", "not applicable"), {"a"}, "pass (1 of 2)"),
        (("kept", "broken"), {"a"}, "broken"),
        (("kept", "kept"), set(), "not claimed"),
        (("not claimed", "not claimed"), set(), "not claimed"),
        (("not claimed", "not claimed"), {"a"}, NOT_RUN),
        (("not applicable",), {"a"}, "not applicable"),
        ((), {"a"}, NOT_RUN),
    ],
)
def test_a_verdict_is_of_what_is_claimed_today(
    cases: tuple[CaseStatus, ...], claims: set[str], what: str
) -> None:
    """A claim that is newer than the run has not been run, and one that is gone is none."""
    listed = [CaseRun(f"{at}", 1, one, ("a",)) for at, one in enumerate(cases)]
    assert verdict(run(*listed), 1, claims) == what
    assert verdict(None, 1, claims) == NOT_RUN


def test_a_fake_is_called_one() -> None:
    """What passes there is no word about the engine."""
    runs = {"b": run(CaseRun("x", 1, "kept"), fake=True)}
    shown, other = tried(runs, {"b": (), "c": ()})
    assert (shown.promises["order"], shown.promises["text"]) == ("on a fake: pass", NOT_RUN)
    assert (other.date, set(other.promises.values())) == ("", {NOT_RUN})
