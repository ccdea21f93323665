"""`roost chaos`: real processes under all faults; in `make test-drills`, and its command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roost.bench.chaos.promises import PROMISES
from roost.bench.chaos.schedule import FAULTS
from roost.cli import main

SEED = "20"


@pytest.mark.drill
@pytest.mark.timeout(300)
def test_a_fleet_keeps_every_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every fault once: every promise is tried, and none is broken."""
    out = tmp_path / "seen.json"
    code = main.run(["chaos", "--seed", SEED, "--pace", "1", "--json", "--out", str(out)])
    told = json.loads(capsys.readouterr().out)
    broken = [one for one in told["promises"] if one["kept"] == "broken"]
    assert (code, broken) == (0, [])
    assert {one["fault"] for one in told["strikes"]} == set(FAULTS)
    assert len(told["promises"]) == len(PROMISES)
    untried = [one["promise"] for one in told["promises"] if one["kept"] == "untried"]
    assert len(untried) <= 3, untried
    assert len(json.loads(out.read_bytes())["seen"]["spoken"]) == told["chats"]


def test_a_schedule_is_shown_and_not_played(capsys: pytest.CaptureFixture[str]) -> None:
    """The same seed, twice: the same lines, each fault in one."""
    assert main.run(["chaos", "--seed", "7", "--plan"]) == 0
    first = capsys.readouterr().out
    assert main.run(["chaos", "--seed", "7", "--plan"]) == 0
    assert capsys.readouterr().out == first
    assert first.startswith("seed 7: 9 faults\n")
    assert all(f" {fault} " in first for fault in FAULTS)


def test_without_a_seed_the_one_that_was_drawn_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """So that it can be played again."""
    assert main.run(["chaos", "--only", "drain", "--plan"]) == 0
    told = capsys.readouterr().out
    seed = told.split()[1].rstrip(":")
    assert main.run(["chaos", "--only", "drain", "--plan", "--seed", seed]) == 0
    assert capsys.readouterr().out == told


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--only", "earthquake"), "kill-node"),
        (("--rounds", "0"), "--rounds"),
        (("--pace", "nan"), "--pace"),
        (("--pace", "-1"), "--pace"),
        (("--rate", "inf"), "--rate"),
    ],
)
def test_what_cannot_be_played_is_refused(
    words: tuple[str, ...], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 2, and what there is instead."""
    assert main.run(["chaos", *words]) == 2
    assert names in capsys.readouterr().err
