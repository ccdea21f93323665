"""Reference pages that are written from code: `python -m tests.reference` writes them anew."""

from __future__ import annotations

from collections.abc import Callable

from roost.config.show import reference_markdown
from roost.errors import REASONS, Fault
from roost.observe.names import EVENTS, METRICS
from tests.source import ROOT

_INTRODUCTION = """\
# Errors

Written by `make docs` from the catalogue in `src/roost/errors.py`.

Every failure has one reason from these tables, in the reply, in the receipt and in the metrics.
The status is the one before a dialect translates it.
"retry" says whether the same request may succeed later or elsewhere.
"""

_WHO = {
    Fault.CALLER: "whoever sent the request has to change it",
    Fault.CAPACITY: "nobody is at fault: come back later",
    Fault.PEER: "a node, a runtime or an upstream server failed",
    Fault.OURS: "a defect in roost: please report it",
}


def errors_markdown() -> str:
    """Render the catalogue of failures, one table per fault."""
    parts = [_INTRODUCTION]
    for fault in Fault:
        parts.append(f"\n## {fault.value}: {_WHO[fault]}\n\n")
        parts.append("| reason | status | retry | meaning | what to do |\n|---|---|---|---|---|\n")
        for reason, kind in REASONS.items():
            if kind.fault is fault:
                retry = "yes" if kind.retryable else "no"
                parts.append(
                    f"| `{reason}` | {kind.status} | {retry} | {kind.meaning} | {kind.remedy} |\n"
                )
    return "".join(parts)


_OBSERVED = """\
# Metrics and log events

Written by `make docs` from `src/roost/observe/names.py`.

`GET /metrics` gives the metrics as Prometheus text; names that end in `_seconds` are histograms.
Logs go to stderr: human lines on a terminal, JSON otherwise (`--log-format`, `--log-level`).
Prompts, completions and keys are in neither.

| metric | shape | labels | meaning |
|---|---|---|---|
"""


def observed_markdown() -> str:
    """Render the list of metrics and the list of log events."""
    rows = [f"| `{m.name}` | {m.shape} | {', '.join(m.labels)} | {m.meaning} |\n" for m in METRICS]
    events = [f"| `{event}` | {meaning} |\n" for event, meaning in EVENTS.items()]
    return "".join([_OBSERVED, *rows, "\n| event | meaning |\n|---|---|\n", *events])


PAGES: dict[str, Callable[[], str]] = {
    "docs/errors.md": errors_markdown,
    "docs/observe.md": observed_markdown,
    "docs/settings.md": reference_markdown,
}

if __name__ == "__main__":
    for path, page in PAGES.items():
        (ROOT / path).write_text(page(), "utf-8")
