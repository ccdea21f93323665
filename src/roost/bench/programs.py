"""SHELL: what the programs of `make bench-…` have in common: a stage, a report, a status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time

import msgspec

from roost.bench.claims import Report
from roost.bench.drills.stage import Stage, on_stage
from roost.bench.numbers import calibration
from roost.bench.processes import ends_by_term
from roost.gateway.loop import run


def parser(name: str, about: str | None, *, needs_model: bool = True) -> argparse.ArgumentParser:
    """Make the parser of `python -m roost.bench.NAME`, with the flags of all of them."""
    made = argparse.ArgumentParser(prog=f"python -m roost.bench.{name}", description=about)
    made.add_argument(
        "--real", type=Path, metavar="GGUF", required=needs_model, help="the model's file"
    )
    made.add_argument("--json", type=Path, help="also write the report to this file")
    return made


def perform(
    measure: Callable[[Stage], Awaitable[Report]], bound_s: float, options: argparse.Namespace
) -> int:
    """Measure on a stage within `bound_s` and report; return 1 if a bar was missed, else 0."""
    ends_by_term()
    sys.stdout.write(f"calibration loop {calibration(process_time):.1f} ms\n")
    told = run(on_stage(measure, bound_s, options.real))
    sys.stdout.write(f"{told.text()}\n")
    if options.json:
        options.json.write_bytes(msgspec.json.encode(told))
    return 0 if told.passed else 1
