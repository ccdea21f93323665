"""`roost bench sweep`, `capacity` and `compare`: what is typed, and what is printed."""

from __future__ import annotations

import json

import pytest

from roost.cli.main import run
from tests.bench.load.stub import Part
from tests.cli.bench_stub import stub


def words(kind: str, url: str) -> list[str]:
    """Return the words that all of them begin with."""
    return ["bench", kind, "--url", url, "--model", "m"]


def test_a_sweep_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each level, losses included; JSON for scripts; a broken bound is status 1."""
    with stub(*[Part()] * 4, *[Part(ending="cut")] * 2, *[Part()] * 2) as url:
        common = [*words("sweep", url), "--levels", "1,2", "--requests", "4"]
        assert run([*common, "--fail-on", "error_rate=0.1"]) == 1
        told = capsys.readouterr()
        assert [line.split()[:4] for line in told.out.splitlines()[1:]] == [
            ["1", "4", "0", "0"],
            ["2", "2", "0", "2"],
        ]
        assert "error_rate has to be at most 0.1 and is 0.5" in told.err
        assert run([*common, "--json"]) == 0
    levels = json.loads(capsys.readouterr().out)["levels"]
    assert [level["level"] for level in levels] == [1, 2]
    assert all("ttft_ms" in level for level in levels)


def test_a_ramp_ends_at_its_knee(capsys: pytest.CaptureFixture[str]) -> None:
    """The first level at which half was refused is the last; that there is none is said too."""
    parts = (*[Part()] * 8, *[Part(status=429)] * 6)
    with stub(*parts) as url:
        common = [*words("stress", url), "--max-concurrency", "9", "--requests-per-step", "4"]
        assert run([*common, "--step", "1"]) == 0
        told = capsys.readouterr().out
        assert [line.split()[:4] for line in told.splitlines()[1:-1]] == [
            ["1", "4", "0", "0"],
            ["2", "4", "0", "0"],
            ["3", "0", "6", "0"],
        ]
        assert told.splitlines()[-1] == "knee: 3 users"
        assert run([*common, "--max-concurrency", "2", "--step", "1", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["knee"] is None
        # What has been played by now leaves four refusals: nothing is answered.
        assert run([*common, "--max-concurrency", "1", "--step", "1"]) == 1
    assert capsys.readouterr().out.endswith("knee: 1 users\n")


def test_a_capacity_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """For each bound; at least, where nothing broke it."""
    with stub(Part()) as url:
        common = [*words("capacity", url), "--users-most", "2", "--requests", "3"]
        assert run(common) == 0
        assert (
            "admission: at least 2 users\nslo: at least 2 users\nphysical: "
            in capsys.readouterr().out
        )
        assert run([*common, "--fail-on", "p50_ttft_ms=0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["users"] == {"admission": 2, "slo": 0, "physical": 2}
    assert told["unbroken"] == ["admission", "physical"]
    assert told["levels"][0]["pressure"] == {"sessions_pct": None, "kv_pct": None}


def test_a_comparison_is_a_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the one at --url over the one at --against, whose losses are told."""
    with stub(Part()) as url, stub(Part(first_s=0.1)) as other:
        common = [*words("compare", other), "--users", "1", "--requests", "2", "--rounds", "1"]
        assert run([*common, "--against", url]) == 0
        told = capsys.readouterr().out
        assert "2 blocks each; not answered whole: against 0, url 0" in told
        assert run([*common, "--against", url, "--json"]) == 0
    ratio = json.loads(capsys.readouterr().out)["ratios"]["p50_ttft_ms"]
    assert ratio["low"] > 1.0


@pytest.mark.parametrize(
    ("kind", "more", "wrong"),
    [
        ("sweep", [], "one of --rates and --levels"),
        ("sweep", ["--rates", "1", "--levels", "1"], "one of --rates and --levels"),
        ("sweep", ["--rates", "1,x"], "levels are numbers"),
        ("sweep", ["--rates", "0"], "above 0"),
        ("sweep", ["--rates", "inf"], "above 0"),
        ("sweep", ["--rates", "1,1000000"], "no measurement any more"),
        ("sweep", ["--rates", "1", "--cooldown", "nan"], "--cooldown has to be 0 or more"),
        ("sweep", ["--rates", "1", "--duration", "0"], "--duration has to be above 0"),
        ("sweep", ["--levels", "1.5"], "whole users"),
        ("stress", ["--step", "0"], "--step has to be at least 1"),
        ("stress", ["--step", "64"], "--max-concurrency not below it"),
        ("stress", ["--step", "1", "--max-concurrency", "5000"], "larger --step"),
        ("stress", ["--requests-per-step", "0"], "at least 1"),
        ("stress", ["--stop-reject-rate", "0"], "above 0"),
        ("stress", ["--stop-reject-rate", "nan"], "above 0"),
        ("capacity", ["--users-most", "0"], "at least 1"),
        ("capacity", ["--requests", "0"], "at least 1"),
        ("capacity", ["--fail-on", "x=1"], "no figure is called"),
        ("capacity", ["--stats-poll-interval-s", "0"], "above 0"),
        ("compare", ["--against", "http://127.0.0.1:9", "--users", "1", "--rounds", "0"], "1"),
        ("compare", ["--against", "nowhere", "--users", "1"], "http://HOST"),
        (
            "compare",
            ["--against", "http://127.0.0.1:9", "--users", "1", "--fail-on", "x"],
            "no figure is called",
        ),
        ("compare", ["--against", "http://127.0.0.1:9"], "--rate, --users and --trace"),
    ],
)
def test_what_is_none_is_refused(
    kind: str, more: list[str], wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, in one line, before anything is sent."""
    assert run([*words(kind, "http://127.0.0.1:9"), *more]) == 2
    told = capsys.readouterr().err
    assert wrong in told
    assert told.count("\n") == 1
