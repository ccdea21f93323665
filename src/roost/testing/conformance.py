"""SHELL: the conformance suite, which checks that a backend keeps the promises of its contract.

For authors of backends, inside roost or not:

    results = await examine(Subject(backend, key, manifest, settings, kill=kill_process))
    assert not failed(results), table(results)

Cases are selected by what the backend claims; the rest is reported as not claimed, so a table of
results is the support matrix. `CASES` and `check` run one case at a time, for a test each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from roost.errors import RoostError
from roost.testing.cases import CASES, Case
from roost.testing.stand import STOP_GRACE_S, Broken, NotApplicable, Stand, Subject

Status = Literal["kept", "broken", "not claimed", "not applicable"]

__all__ = ["CASES", "Case", "Result", "Subject", "check", "examine", "failed", "table"]


@dataclass(frozen=True)
class Result:
    """What came of one case; `measured` holds seconds by name, where the case measures."""

    case: Case
    status: Status
    detail: str = ""
    took_s: float = 0.0
    measured: dict[str, float] = field(default_factory=dict)


async def examine(subject: Subject, cases: Iterable[Case] = CASES) -> list[Result]:
    """Run the cases one after another; they share a runtime until one of them ends or breaks it."""
    results: list[Result] = []
    stand: Stand | None = None
    for case in cases:
        if result := _excused(case, subject):
            results.append(result)
            continue
        stand = stand or await _start(subject)
        results.append(await _judge(case, stand))
        if case.ends_runtime or results[-1].status == "broken":
            await stand.runtime.stop(STOP_GRACE_S)
            stand = None
    if stand:
        await stand.runtime.stop(STOP_GRACE_S)
    return results


async def check(case: Case, subject: Subject) -> Result:
    """Run one case on a runtime of its own."""
    (result,) = await examine(subject, [case])
    return result


def failed(results: Iterable[Result]) -> list[Result]:
    """Give the results of the cases whose promise was broken."""
    return [result for result in results if result.status == "broken"]


def table(results: Iterable[Result]) -> str:
    """Lay results out in lines for people: promise, case, status, and what was seen."""
    lines = []
    for result in results:
        seen = [result.detail] if result.detail else []
        seen += [f"{name} {value:.3f} s" for name, value in result.measured.items()]
        case = result.case
        lines.append(f"{case.promise:>2}  {case.name:<34} {result.status:<14} {'; '.join(seen)}")
    return "\n".join(line.rstrip() for line in lines)


def _excused(case: Case, subject: Subject) -> Result | None:
    claims = subject.backend.capabilities
    missing = [name for name in case.needs if not getattr(claims, name)]
    if missing:
        return Result(case, "not claimed", f"needs {', '.join(missing)}")
    if case.needs_kill and subject.kill is None:
        return Result(case, "not applicable", "the subject has no way to be killed")
    return None


async def _start(subject: Subject) -> Stand:
    progress: list[float] = []
    runtime = await subject.backend.start(
        subject.key, subject.manifest, subject.settings, progress.append
    )
    return Stand(subject, runtime, progress)


async def _judge(case: Case, stand: Stand) -> Result:
    began_s = time.monotonic()
    stand.measured.clear()
    status: Status = "kept"
    detail = ""
    try:
        async with asyncio.timeout(stand.subject.case_timeout_s):
            await case.run(stand)
    except Exception as error:  # noqa: BLE001 - the contract allows RoostError and nothing else
        status, detail = _verdict(_innermost(error))
    return Result(case, status, detail, time.monotonic() - began_s, dict(stand.measured))


def _verdict(error: Exception) -> tuple[Status, str]:
    if isinstance(error, NotApplicable):
        return "not applicable", str(error)
    if isinstance(error, Broken):
        return "broken", str(error)
    if isinstance(error, RoostError):
        return "broken", f"{error.failure.reason}: {error.failure.message}"
    if isinstance(error, TimeoutError):
        return "broken", "it was not over in time"
    return "broken", f"a foreign exception came out: {error!r}"


def _innermost(error: Exception) -> Exception:
    """Take the first real failure out of what a task group has wrapped around it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
