"""WIRING: what measurements of `roost bench` have in common: flags, plans, servers, progress."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from roost.cli import options
from roost.errors import fail

if TYPE_CHECKING:
    import ssl
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from roost.bench.load.gates import Gate
    from roost.bench.load.plan import Closed, Open, Plan, Trace
    from roost.bench.load.sample import Sample
    from roost.bench.load.summary import Slo, Summary
    from roost.bench.load.traces import TraceFormat
    from roost.gateway.upstream.targets import Target

TRACE_MAX = 100_000


def parser(kind: str, description: str) -> options.Parser:
    """Make a parser with the flags of what is asked, and how long."""
    made = options.parser(f"bench {kind}", description, options.ASKS)
    add = made.add_argument
    add("--model", action="append", default=[], help="who is asked; more than one are mixed")
    add("--duration", type=float, default=30.0, metavar="S", help="seconds (default: 30)")
    kinds = ("constant", "poisson", "bursts")
    add("--arrivals", choices=kinds, default="poisson", help="of an open loop (default: poisson)")
    add("--burst", type=int, default=8, metavar="N", help="requests of a burst (default: 8)")
    add("--users-max", type=int, default=2000, metavar="N", help="on their way at most, open loop")
    add("--prompt", default="", help="always the same words; those of --words differ each time")
    add("--prompt-file", metavar="FILE", help="the same, from a file")
    add("--words", type=int, default=40, metavar="N", help="of a prompt (default: 40)")
    add("--turns", type=int, default=1, metavar="N", help="turns of a conversation (default: 1)")
    add("--prefixes", type=int, default=0, metavar="N", help="so many beginnings are shared")
    add("--prefix-words", type=int, default=400, metavar="N", help="of each (default: 400)")
    add("--max-tokens", type=int, default=64, metavar="N", help="of an answer (default: 64)")
    add("--temperature", type=float, default=0.0, metavar="T", help="of sampling (default: 0)")
    add("--seed", type=int, default=0, metavar="N", help="of words and arrivals (default: 0)")
    add("--timeout", type=float, default=120.0, metavar="S", help="of a request (default: 120)")
    add("--warmup", type=int, default=0, metavar="N", help="requests that are not counted")
    add("--slo", default="", metavar="K=MS,…", help="of goodput: ttft_ms, tpot_ms, e2e_ms")
    add("--fail-on", default="", metavar="K=X,…", help="such as p95_ttft_ms=500,error_rate=0")
    add("--json", action="store_true", help="print figures as one JSON object")
    return made


def add_load(made: options.Parser) -> None:
    """Add the flags that say which load it is."""
    add = made.add_argument
    add("--rate", type=float, metavar="R", help="open loop: requests a second")
    add("--users", type=int, metavar="N", help="closed loop: users at a time")
    add("--trace", metavar="FILE", help="recorded traffic: when, and how long")
    add("--requests", type=int, default=0, metavar="N", help="closed loop: end after so many")
    add("--trace-format", choices=("azure", "mooncake"), help="by the file's name if left out")
    add("--time-scale", type=float, default=1.0, metavar="X", help="stretch a trace's times")
    add("--length-scale", type=float, default=1.0, metavar="X", help="stretch a trace's lengths")


def add_rest(made: options.Parser) -> None:
    """Add how long a server rests between levels."""
    rest = "seconds between levels (default: 0)"
    made.add_argument("--cooldown", type=float, default=0.0, metavar="S", help=rest)


def check_numbers(parsed: Namespace) -> None:
    """Refuse what is out of range with a `ValueError` that names the flag."""
    # Whatever is compared with what is no number is false.
    for name in ("words", "turns", "max_tokens", "timeout", "duration", "users_max", "burst"):
        if not getattr(parsed, name) > 0:
            raise ValueError(f"--{name.replace('_', '-')} has to be above 0")
    for name in ("prefixes", "prefix_words", "warmup", "temperature", "cooldown"):
        if not getattr(parsed, name, 0) >= 0:
            raise ValueError(f"--{name.replace('_', '-')} has to be 0 or more")


def plan_of(parsed: Namespace, load: Open | Closed | Trace) -> Plan:
    """Make a plan of the flags; `ValueError` for what contradicts itself."""
    from roost.bench.load.plan import Manner, Plan
    from roost.bench.load.workload import Workload

    if not parsed.model:
        raise ValueError("--model has to name who is asked: GET /v1/models lists the names")
    work = Workload(
        tuple(parsed.model),
        _prompt(parsed),
        parsed.words,
        parsed.turns,
        parsed.max_tokens,
        parsed.prefixes,
        parsed.prefix_words,
        parsed.seed,
    )
    manner = Manner(parsed.temperature, timeout_s=parsed.timeout)
    return Plan(load, work, manner, _slo(parsed.slo), parsed.warmup)


def load_of(parsed: Namespace) -> Open | Closed | Trace:
    """Make the load that the flags say; `ValueError` for none, two, or one out of range."""
    from roost.bench.load.plan import Closed, Open

    check_numbers(parsed)
    kinds = [kind for kind in ("rate", "users", "trace") if getattr(parsed, kind) is not None]
    if len(kinds) != 1:
        raise ValueError("one of --rate, --users and --trace says which load it is")
    if parsed.trace is not None:
        return _traced(parsed)
    if parsed.users is not None:
        if parsed.users < 1 or parsed.requests < 0:
            raise ValueError("--users has to be at least 1, and --requests not below 0")
        return Closed(parsed.users, parsed.requests, parsed.duration)
    if not 0 < parsed.rate < float("inf"):
        raise ValueError("--rate has to be above 0")
    return Open(parsed.rate, parsed.duration, parsed.arrivals, parsed.burst, parsed.users_max)


def _traced(parsed: Namespace) -> Trace:
    from roost.bench.load.plan import Trace
    from roost.bench.load.traces import read_trace, scaled

    if not (parsed.time_scale > 0 and parsed.length_scale > 0):
        raise ValueError("--time-scale and --length-scale have to be above 0")
    path = Path(parsed.trace)
    kind: TraceFormat = parsed.trace_format or ("azure" if path.suffix == ".csv" else "mooncake")
    try:
        with path.open(encoding="utf-8") as file:
            requests = read_trace(kind, file, TRACE_MAX)
    except OSError as error:
        raise ValueError(f"--trace: {error.strerror or 'cannot be read'}") from None
    except UnicodeDecodeError:
        raise ValueError("--trace: it is no text") from None
    played = scaled(requests, parsed.time_scale, parsed.length_scale)
    within = tuple(one for one in played if one.due_s < parsed.duration)
    return Trace(within, parsed.length_scale, parsed.users_max)


def _prompt(parsed: Namespace) -> str:
    if not parsed.prompt_file:
        return str(parsed.prompt)
    if parsed.prompt:
        raise ValueError("--prompt and --prompt-file are one too many")
    try:
        return Path(parsed.prompt_file).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise ValueError("--prompt-file cannot be read as text") from None


def _slo(text: str) -> Slo:
    from roost.bench.load.summary import Slo

    limits: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.strip().partition("=")
        if name not in ("ttft_ms", "tpot_ms", "e2e_ms"):
            raise ValueError(f"an SLO has ttft_ms, tpot_ms and e2e_ms, and no {name!r}")
        try:
            limits[name] = float(number)
        except ValueError:
            raise ValueError(f"{name} needs a number behind `=`, not {number!r}") from None
    return Slo(**limits)


def gates_of(parsed: Namespace) -> tuple[Gate, ...]:
    """Parse the bounds; `ValueError` for what is none."""
    from roost.bench.load.gates import parse_gates

    return parse_gates(parsed.fail_on)


def told_broken(gates: tuple[Gate, ...], told: Summary) -> bool:
    """Say which bounds were broken, and return whether none was."""
    from roost.bench.load.gates import broken

    found = broken(gates, told)
    for words in found:
        print(f"roost bench: {words}", file=sys.stderr)
    return not found


@contextmanager
def refusing() -> Iterator[None]:
    """Turn what contradicts itself into a refusal, before anything is sent."""
    try:
        yield
    except ValueError as error:
        raise fail("bad_request", f"{error}.") from None


def target_of(parsed: Namespace) -> tuple[Target, ssl.SSLContext | None]:
    """Return the server, and whom to trust where it is behind https."""
    from roost.cli.client import located, trusted
    from roost.gateway.upstream.targets import parse_target

    settings = options.load(parsed).settings
    where = located(settings)
    target = parse_target(f"server={where.url}", 1, settings.api_key or None)
    return target, trusted(where) if target.tls else None


def progress_of(parsed: Namespace) -> Callable[[Sample], None]:
    """Return what tells a person once a second how far it is; silent where nobody watches."""
    if parsed.json or not sys.stderr.isatty():
        return lambda _: None
    counts = {"ok": 0, "shed": 0, "failed": 0}
    began_s = told_s = time.monotonic()

    def seen(sample: Sample) -> None:
        nonlocal told_s
        counts[sample.outcome] += 1
        now_s = time.monotonic()
        if now_s - told_s >= 1:
            told_s = now_s
            shown = ", ".join(f"{count} {what}" for what, count in counts.items())
            print(f"\r{now_s - began_s:5.0f} s  {shown}  ", end="", file=sys.stderr, flush=True)

    return seen
