"""WIRING: `python -m roost.bench.experiments`: run experiments, and write what came of them."""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import msgspec

from roost.bench.drills.stage import many_calls
from roost.bench.experiments import (
    e01_admission,
    e02_ties,
    e03_failover,
    e04_unequal,
    e05_capacity,
    e06_incremental,
    e07_slow_client,
    e08_deaths,
    e09_long_talk,
    e10_drain,
    e11_stampede,
    e12_unrelated,
    e13_concurrency,
    e14_residency,
    e15_state_gate,
    e16_shutdown,
    e17_batching,
)
from roost.bench.experiments.frame import THREADS, House, Playable
from roost.bench.experiments.pages import COMMAND, Told, index, page, picture_name
from roost.bench.experiments.pictures import svg
from roost.bench.experiments.record import Record, read, written
from roost.bench.experiments.telling import left_over
from roost.bench.load import environment
from roost.bench.processes import ends_by_term
from roost.gateway.loop import run
from roost.observe import logs

EXPERIMENTS: tuple[Playable, ...] = (
    e01_admission.EXPERIMENT,
    e02_ties.EXPERIMENT,
    e03_failover.EXPERIMENT,
    e04_unequal.EXPERIMENT,
    e05_capacity.EXPERIMENT,
    e06_incremental.EXPERIMENT,
    e07_slow_client.EXPERIMENT,
    e08_deaths.EXPERIMENT,
    e09_long_talk.EXPERIMENT,
    e10_drain.EXPERIMENT,
    e11_stampede.EXPERIMENT,
    e12_unrelated.EXPERIMENT,
    e13_concurrency.EXPERIMENT,
    e14_residency.EXPERIMENT,
    e15_state_gate.EXPERIMENT,
    e16_shutdown.EXPERIMENT,
    e17_batching.EXPERIMENT,
)
FOLDER = Path("docs/experiments")
RAW = "raw"


def known() -> dict[str, Playable]:
    """Return every experiment by its name."""
    return {one.about.name: one for one in EXPERIMENTS}


async def played(experiment: Playable, house: House) -> Record:
    """Run one, and return its record."""
    before = environment.environment(dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))
    many_calls()
    began_s = monotonic()
    house.held = {}
    seen = await experiment.play(house)
    return Record(
        experiment=experiment.about.name,
        command=f"{COMMAND}{experiment.about.name}",
        plan=experiment.planned,
        environment=environment.after(before),
        model=_named(house.real) if house.real and experiment.about.real else "",
        wall_s=round(monotonic() - began_s, 1),
        held=house.held,
        seen=seen,
    )


def told(record: Record) -> Told:
    """Judge a record."""
    experiment = known()[record.experiment]
    found = experiment.judged(record.seen)
    checks = (*found.checks, left_over(record.held))
    return Told(experiment.about, record, msgspec.structs.replace(found, checks=checks))


def told_all(folder: Path) -> list[Told]:
    """Read and judge all records of a folder, in the order of the experiments."""
    files = (folder / RAW / f"{name}.json" for name in known())
    return [told(read(file.read_bytes())) for file in files if file.exists()]


def pages(every: Sequence[Told]) -> dict[str, str]:
    """Return every file that follows from records, by its name."""
    files: dict[str, str] = {}
    for one in every:
        files[f"{one.about.name}.md"] = page(one)
        for number, picture in enumerate(one.verdict.pictures):
            files[picture_name(one.about.name, number)] = svg(picture)
    run_already = {one.about.name for one in every}
    missing = [one.about for one in EXPERIMENTS if one.about.name not in run_already]
    return {**files, "README.md": index(every, missing)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run those that are named, or all; status 1 if a claim of one did not hold."""
    parser = argparse.ArgumentParser(prog="python -m roost.bench.experiments", description=__doc__)
    parser.add_argument("--only", metavar="E1,E4", default="", help=", ".join(known()))
    parser.add_argument("--real", type=Path, metavar="GGUF", help="the real model's file")
    parser.add_argument("--out", type=Path, default=FOLDER, help=f"where (default: {FOLDER})")
    parser.add_argument("--pages", action="store_true", help="run nothing; make pages of records")
    options = parser.parse_args(arguments)
    names = [name.strip() for name in options.only.split(",") if name.strip()] or list(known())
    if wrong := set(names) - set(known()):
        parser.error(f"no such experiment: {', '.join(sorted(wrong))}")
    if options.real is not None and not options.real.is_file():
        parser.error("--real has to be a file")
    chosen = [known()[name] for name in names] if not options.pages else []
    if not options.real and (needy := [one.about.name for one in chosen if one.about.real]):
        parser.error(f"{', '.join(needy)} need a model: --real GGUF")
    ends_by_term()
    logs.configure("error")
    held = [_run(one, options.real, options.out) for one in chosen]
    for name, text in pages(told_all(options.out)).items():
        (options.out / name).write_text(text, "utf-8")
    return 0 if all(held) else 1


def _run(experiment: Playable, real: Path | None, out: Path) -> bool:
    """Run one, keep its record, and say what came of it."""
    record = run(played(experiment, House(real)))
    folder = out / RAW
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{record.experiment}.json").write_bytes(written(record))
    verdict = told(record).verdict
    about = experiment.about
    claims = (f"{'held  ' if c.met else 'MISSED'} {c.claim}: {c.seen}" for c in verdict.checks)
    lines = (f"== {about.name} {about.title} ({record.wall_s:g} s)", *verdict.tables, *claims, "")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    return not verdict.missed


def _named(file: Path) -> str:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return f"{file.name}, {THREADS} thread, SHA-256 {digest}"


if __name__ == "__main__":
    sys.exit(main())
