"""`roost chaos`: real processes under all faults; in `make test-drills`, and its command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roost.bench.chaos.play import SOAK
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


@pytest.mark.drill
@pytest.mark.timeout(300)
def test_a_long_run_holds_no_more_than_a_short_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Round after round of the faults that nobody dies of: what is held is level, and told."""
    out = tmp_path / "seen.json"
    words = ["--minutes", "1.3", "--rate", "3", "--pace", "1", "--seed", SEED]
    code = main.run(["chaos", *words, "--json", "--out", str(out)])
    told = json.loads(capsys.readouterr().out)
    broken = [one for one in told["promises"] if one["kept"] == "broken"]
    assert (code, broken) == (0, [])
    level = next(one for one in told["promises"] if one["promise"].startswith("Under load"))
    assert (level["kept"], level["tried"]) == ("kept", 13)
    seen = json.loads(out.read_bytes())["seen"]
    assert len({one["process"] for one in seen["readings"]}) == 4
    assert {one["fault"] for one in seen["strikes"]} == set(SOAK)


def test_a_schedule_is_shown_and_not_played(capsys: pytest.CaptureFixture[str]) -> None:
    """The same seed, twice: the same lines, each fault in one."""
    assert main.run(["chaos", "--seed", "7", "--plan"]) == 0
    first = capsys.readouterr().out
    assert main.run(["chaos", "--seed", "7", "--plan"]) == 0
    assert capsys.readouterr().out == first
    assert first.startswith("seed 7: 9 faults\n")
    assert all(f" {fault} " in first for fault in FAULTS)


def test_a_schedule_is_data_too(capsys: pytest.CaptureFixture[str]) -> None:
    """With its seed, and every fault that is to come; of one without an end there is none."""
    assert main.run(["chaos", "--seed", "7", "--plan", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["plan"]["seed"] == 7
    assert {one["fault"] for one in told["schedule"]} == set(FAULTS)
    assert main.run(["chaos", "--minutes", "10", "--plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schedule"] is None


def test_a_long_run_says_its_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """It has no schedule that ends; those that processes die of are for whoever names them."""
    assert main.run(["chaos", "--minutes", "10", "--seed", "7", "--plan"]) == 0
    told = capsys.readouterr().out
    assert told.endswith("again and again for 10 minutes\n")
    assert "kill-node" not in told
    assert main.run(["chaos", "--minutes", "10", "--only", "kill-node", "--plan"]) == 0
    assert ": kill-node, again" in capsys.readouterr().out


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
        (("--minutes", "-1"), "--minutes"),
        (("--minutes", "nan"), "--minutes"),
        (("--minutes", "1", "--rounds", "2"), "--minutes"),
        (("--minutes", "1", "--only", "stampede"), "stampede"),
        (("--beside", "no-such-gateway"), "haproxy"),
        (("--beside", "nginx", "--minutes", "1"), "--minutes"),
    ],
)
def test_what_cannot_be_played_is_refused(
    words: tuple[str, ...], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 2, and what there is instead."""
    assert main.run(["chaos", *words]) == 2
    assert names in capsys.readouterr().err
