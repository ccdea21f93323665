"""The cost of a decision is measured and told; how long it took here is nobody's promise."""

from __future__ import annotations

import pytest

from roost.bench import routing


def test_a_line_for_each_policy(capsys: pytest.CaptureFixture[str]) -> None:
    """Small sizes run through every event; the status says whether the default met its bar."""
    sizes = ["--nodes", "3", "--conversations", "20", "--requests", "40", "--repeats", "2"]
    status = routing.main([*sizes, "--policy", "predicted", "--policy", "random"])
    assert status in {0, 1}
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["predicted", "random"]
    assert all("thousand calibration steps; raw p99" in line for line in lines)


def test_the_least_of_the_repeats_counts() -> None:
    """So no figure is above the raw one, and all are positive."""
    one = routing.cost("least_inflight", nodes=3, conversations=20, requests=40, repeats=2)
    assert 0 < one.p50_us <= one.p99_us <= one.raw_p99_us
    assert one.p99_steps > 0
