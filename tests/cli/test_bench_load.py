"""`roost bench load`: what is typed, and what is printed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from roost.bench.load.plan import Closed, Open, Trace
from roost.cli.bench import load as bench_load
from roost.cli.bench.flags import load_of, plan_of
from roost.cli.main import run
from roost.cli.verbs import bench
from tests.bench.load.stub import Part
from tests.cli.bench_stub import stub


def test_a_load_is_one_json_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The names that scripts rely on are on top, and the file has the raw samples as well."""
    out = tmp_path / "out.json"
    with stub(Part()) as url:
        words = ["bench", "load", "--url", url, "--model", "m", "--rate", "50", "--duration", "0.2"]
        code = run([*words, "--arrivals", "constant", "--json", "--out", str(out)])
    told = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (told["ok"], told["shed"], told["failed"]) == (10, 0, 0)
    assert all(told[name]["p99"] >= told[name]["p50"] for name in ("ttft_ms", "gap_ms", "e2e_ms"))
    assert len(json.loads(out.read_text())["samples"]) == 10


def test_people_read_losses_first(capsys: pytest.CaptureFixture[str]) -> None:
    """In the first lines; a broken bound is status 1, and so is no answer at all."""
    with stub(Part(), Part(status=429), Part(ending="cut"), Part()) as url:
        words = ["bench", "load", "--url", url, "--model", "m", "--users", "1", "--requests", "4"]
        code = run([*words, "--fail-on", "error_rate=0.1,p99_ttft_ms=60000"])
    told = capsys.readouterr()
    assert code == 1
    assert told.out.startswith("2 ok, 1 shed, 1 failed of 4 in ")
    assert "  1 cut\n  1 status_429\n" in told.out
    assert told.err == "roost bench: error_rate has to be at most 0.1 and is 0.25\n"
    with stub(Part(status=503)) as url:
        assert run([*words[:3], url, *words[4:]]) == 1


@pytest.mark.parametrize(("more", "code"), [([], 0), (["--fail-on", "error_rate=0"], 1)])
def test_failures_are_figures_and_a_bound_makes_them_an_exit_code(
    more: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was measured was measured: who wants no failure says so."""
    with stub(Part(), Part(ending="cut")) as url:
        words = ["bench", "load", "--url", url, "--model", "m", "--users", "1", "--requests", "2"]
        assert run([*words, "--json", *more]) == code
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["failed"]) == (1, 1)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--rate", "1"], "--model has to name"),
        (["--model", "m"], "one of --rate, --users and --trace"),
        (["--model", "m", "--rate", "1", "--users", "1"], "one of --rate, --users and --trace"),
        (["--model", "m", "--rate", "0"], "--rate has to be above 0"),
        (["--model", "m", "--rate", "nan"], "--rate has to be above 0"),
        (["--model", "m", "--users", "0"], "--users has to be at least 1"),
        (["--model", "m", "--rate", "1", "--duration", "-1"], "--duration has to be above 0"),
        (["--model", "m", "--users", "1", "--duration", "nan"], "--duration has to be above 0"),
        (["--model", "m", "--rate", "1000000"], "no measurement any more"),
        (["--model", "m", "--rate", "1", "--burst", "9999999"], "no measurement any more"),
        (["--model", "m", "--rate", "1", "--out", "/nowhere/at/all"], "--out: there is no such"),
        (["--model", "m", "--rate", "1", "--slo", "ttft=1"], "no 'ttft'"),
        (["--model", "m", "--rate", "1", "--slo", "ttft_ms=x"], "needs a number"),
        (["--model", "m", "--rate", "1", "--fail-on", "p95=1"], "no figure is called 'p95'"),
        (["--model", "m", "--trace", "/nowhere"], "--trace: No such file"),
        (["--model", "m", "--rate", "1", "--prompt-file", "/nowhere"], "cannot be read"),
        (["--model", "m", "--rate", "1", "--url", "ftp://x"], "http"),
    ],
)
def test_a_load_that_is_none_is_refused(
    words: list[str], wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, in one line, before anything is sent."""
    assert run(["bench", "load", "--url", "http://127.0.0.1:9", *words]) == 2
    told = capsys.readouterr()
    assert wrong in told.err
    assert told.err.count("\n") == 1


def test_flags_are_a_plan(tmp_path: Path) -> None:
    """An open loop, a closed one and a trace; a trace ends where the duration does."""
    trace = tmp_path / "trace.jsonl"
    line = '{"timestamp": %d, "input_length": 100, "output_length": 10}'
    trace.write_text("\n".join(line % (1000 * number) for number in range(9)))
    parse = bench_load.parser().parse_args
    opened = parse(["--model", "m", "--rate", "3", "--arrivals", "bursts"])
    assert plan_of(opened, load_of(opened)).load == Open(3.0, 30.0, "bursts", 8, 2000)
    closed = parse(["--model", "m", "--users", "3", "--requests", "5"])
    assert load_of(closed) == Closed(3, 5, 30.0)
    words = ["--model", "m", "--trace", str(trace), "--duration", "2", "--time-scale", "0.5"]
    traced = load_of(parse([*words, "--length-scale", "0.1"]))
    assert isinstance(traced, Trace)
    assert [one.due_s for one in traced.requests] == [0.0, 0.5, 1.0, 1.5]
    assert {one.prompt_tokens for one in traced.requests} == {10}


@pytest.mark.parametrize("words", [[], ["nothing"]])
def test_kinds_are_listed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With none, or one that is not there, status 2; the help names all."""
    with pytest.raises(SystemExit) as ended:
        bench.main(words)
    assert ended.value.code == 2
    with pytest.raises(SystemExit):
        bench.main(["--help"])
    told = capsys.readouterr().out
    assert all(kind in told for kind in bench.KINDS)


def test_what_a_gateway_costs_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub and its client are in C, so that they are not what is measured."""
    monkeypatch.setenv("PATH", "")
    on_term = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            run(["bench", "gateway", "--only", "roost"])
    finally:
        # What measures ends by TERM, and this process measures nothing.
        signal.signal(signal.SIGTERM, on_term)
    assert "C compiler is needed" in str(ended.value.code)
