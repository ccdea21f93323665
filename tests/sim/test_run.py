"""The command that plays scenarios: same seed same log, failures that can be replayed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from roost.sim import run
from roost.sim.claims.checkers import Violation
from roost.sim.play import Played, play

KNOWN = run.scenarios()
COMMAND = [sys.executable, "-m", "roost.sim.run", "--scenario", "runtime_killed", "--seed", "3"]


def played(*violations: Violation) -> Played:
    """A run with these violations."""
    return Played("calm", 7, violations, "0" * 16, 3600.0, 10, 2, 2, ())


def test_same_seed_same_log() -> None:
    """The log is a function of scenario and seed, line by line."""
    first, second, other = (
        play(KNOWN["no_queue"], "no_queue", seed, keep_lines=True) for seed in (1, 1, 2)
    )
    assert first.lines == second.lines
    assert first.digest == second.digest != other.digest


@pytest.mark.slow
def test_same_log_in_another_process() -> None:
    """Nothing depends on the order of sets, which differs from process to process."""
    outputs = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(COMMAND, check=True, capture_output=True, text=True, env=env)
        outputs.append(done.stdout.splitlines()[0])
    assert outputs[0] == outputs[1]
    assert "log " in outputs[0]


def test_seeds_are_dealt_out_by_turns() -> None:
    """Every scenario gets its share, and no pair comes twice."""
    dealt = list(run.spread(["a", "b", "c"], 7, 5))
    assert dealt == [("a", 5), ("b", 5), ("c", 5), ("a", 6), ("b", 6), ("c", 6), ("a", 7)]


def test_one_run_with_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    """`--seed` tells the hash, `--log` the events, and success is status 0."""
    assert run.main(["--scenario", "gateway_drains", "--seed", "1", "--log"]) == 0
    output = capsys.readouterr().out
    assert "gateway_drains seed 1: log " in output
    assert "> Dispatch r1 1 " in output
    assert "1 runs of 1 scenarios, 0 with violations" in output
    assert "simulated hours per hour" in output


def test_a_violation_names_its_replay(capsys: pytest.CaptureFixture[str]) -> None:
    """What was violated, and one command that shows it again."""
    run.tell(played(Violation("one_ending", "r1 has 2 endings")), verbose=False)
    assert run.sum_up([played(Violation("one_ending", "x")), played()], 2.0) == 1
    output = capsys.readouterr().out
    assert "VIOLATED one_ending: r1 has 2 endings" in output
    assert "replay: python -m roost.sim.run --scenario calm --seed 7 --log" in output
    assert "3600 simulated hours per hour" in output


def test_claims_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader sees what every scenario and every checker is for."""
    assert run.main(["--claims"]) == 0
    output = capsys.readouterr().out
    assert all(name in output for name in KNOWN)
    assert "tokens_contiguous" in output
