"""The cost of a token on its way is measured and told; how long it took is nobody's promise."""

from __future__ import annotations

import pytest

from roost.bench import frames


def test_a_line_for_each_kind_of_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """Every token of the answer comes out as an event, and both lines tell positive figures."""
    assert frames.main(["--tokens", "200", "--repeats", "2"]) in {0, 1}
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["plain", "stops"]
    assert all(float(line.split()[1]) > 0 for line in lines)
