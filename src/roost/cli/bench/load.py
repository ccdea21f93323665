"""WIRING: `roost bench load`: a load for a server, and what came of it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from roost.cli import options
from roost.cli.bench import flags as bench_flags

DESCRIPTION = """\
Ask a server of the OpenAI dialect for streamed chats, and say what came of it. --rate is an open
loop: times are fixed in advance and kept, however long answers take. --users is a closed one: each
asks again when it has its answer. --trace plays recorded traffic. Latencies count from when a
request was due. An answer without its end is a failure, whatever the server says. Failures are
figures: the exit code is 1 where a bound of --fail-on was broken or nothing at all was answered, so
a script that wants none says --fail-on error_rate=0. Only ask servers that are yours to load.
"""


def main(arguments: list[str]) -> int:
    """Play the load; 1 if a bound was broken or nothing was answered."""
    parsed = parser().parse_args(arguments)
    from roost.bench.load.measure import measure
    from roost.bench.load.words import lines
    from roost.gateway.loop import run

    with bench_flags.refusing():
        gates = bench_flags.gates_of(parsed)
        plan = bench_flags.plan_of(parsed, bench_flags.load_of(parsed))
        target, tls = bench_flags.target_of(parsed)
        if parsed.out and not Path(parsed.out).parent.is_dir():
            raise ValueError("--out: there is no such folder")
    seen = bench_flags.progress_of(parsed)
    result, played = run(measure(target, plan, shlex.join(arguments), seen, tls))
    if parsed.out:
        whole = json.dumps(result.flat(played.samples), indent=1)
        Path(parsed.out).write_text(f"{whole}\n", "utf-8")
    if parsed.json:
        options.print_json(result.flat())
    else:
        print("\n".join(lines(result)))
    held = bench_flags.told_broken(gates, result.figures)
    return 0 if held and result.figures.ok else 1


def parser() -> options.Parser:
    """Make the parser of a load's flags."""
    made = bench_flags.parser("load", DESCRIPTION)
    bench_flags.add_load(made)
    out = "write figures and raw samples to a file"
    made.add_argument("--out", metavar="FILE", help=out)
    return made
