"""DECIDER: what became of the conformance suite on each backend, and what that says of a promise.

`core/conformance.json` has the runs; `docs/capabilities.md` and `GET /roost/v1/capabilities` are
made of it. What was not run is never marked.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Literal

import msgspec

CaseStatus = Literal["kept", "broken", "not claimed", "not applicable"]

PROMISES: dict[int, str] = {
    1: "order",
    2: "text",
    3: "limits",
    4: "usage",
    5: "cancellation",
    6: "isolation",
    7: "death",
    8: "end",
    9: "numbers",
    10: "seeds",
    11: "continuation",
    12: "states",
    13: "formats",
    14: "vectors",
    15: "scores",
    0: "abilities",
}
"""The promises of `backends/base.py` by their number; 0 is what capabilities mean beside them."""

NOT_RUN = "not run here"


class CaseRun(msgspec.Struct, frozen=True):
    """What came of one case of the suite, and which claims it needs."""

    name: str
    promise: int
    status: CaseStatus
    needs: tuple[str, ...] = ()


class SuiteRun(msgspec.Struct, frozen=True):
    """One run of the suite: `subject` is the model or the fake that was served.

    `date` is a day, `versions` are roost's and the engine's, `machine` a class of machines. A
    `fake` engine shows what the adapter does, and nothing of the engine.
    """

    date: str
    subject: str
    versions: str
    machine: str
    cases: tuple[CaseRun, ...]
    fake: bool = False


class Tried(msgspec.Struct, frozen=True):
    """What is shown of a run: `promises` has a verdict by the name of each promise."""

    backend: str
    date: str
    subject: str
    versions: str
    machine: str
    promises: Mapping[str, str]


def verdict(run: SuiteRun | None, promise: int, claims: Container[str]) -> str:
    """Say how a promise stands: `pass`, `pass (2 of 5)`, `broken`, or why there is nothing to say.

    A part that passes is what is claimed, or was applicable; the rest is listed with the run.
    `claims` are those of today: what is claimed since was not run.
    """
    cases = [case for case in run.cases if case.promise == promise] if run else []
    statuses = [status for case in cases if (status := _today(case, claims))]
    if run is None or not statuses:
        return NOT_RUN
    if "broken" in statuses:
        return "broken"
    kept = statuses.count("kept")
    if not kept:
        return "not claimed" if "not claimed" in statuses else "not applicable"
    part = "pass" if kept == len(cases) else f"pass ({kept} of {len(cases)})"
    return f"on a fake: {part}" if run.fake else part


def _today(case: CaseRun, claims: Container[str]) -> str:
    """Say what a case is worth now, "" where it would have to be run."""
    claimed = all(need in claims for need in case.needs)
    if not claimed:
        return "not claimed"
    return "" if case.status == "not claimed" else case.status


def tried(runs: Mapping[str, SuiteRun], claims: Mapping[str, Container[str]]) -> tuple[Tried, ...]:
    """Show backends by their claims; one without a run has empty facts, and nothing was run."""
    shown = []
    for backend, claimed in claims.items():
        run = runs.get(backend)
        facts = (run.date, run.subject, run.versions, run.machine) if run else ("", "", "", "")
        promises = {name: verdict(run, number, claimed) for number, name in PROMISES.items()}
        shown.append(Tried(backend, *facts, promises))
    return tuple(shown)


def read_runs(data: bytes) -> dict[str, SuiteRun]:
    """Read what was recorded."""
    return msgspec.json.decode(data, type=dict[str, SuiteRun])
