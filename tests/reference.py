"""Reference pages that are written from code: `python -m tests.reference` writes them anew."""

from __future__ import annotations

from collections.abc import Callable

from roost.config.show import reference_markdown
from roost.errors import REASONS, Fault
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
        parts.append("| reason | status | retry | meaning |\n|---|---|---|---|\n")
        for reason, kind in REASONS.items():
            if kind.fault is fault:
                retry = "yes" if kind.retryable else "no"
                parts.append(f"| `{reason}` | {kind.status} | {retry} | {kind.meaning} |\n")
    return "".join(parts)


PAGES: dict[str, Callable[[], str]] = {
    "docs/errors.md": errors_markdown,
    "docs/settings.md": reference_markdown,
}

if __name__ == "__main__":
    for path, page in PAGES.items():
        (ROOT / path).write_text(page(), "utf-8")
