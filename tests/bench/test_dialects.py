"""The cost of a dialect is measured and told; how long it took is nobody's promise here."""

from __future__ import annotations

import pytest

from roost.bench import dialects


def test_a_line_for_each_kind_of_work(capsys: pytest.CaptureFixture[str]) -> None:
    """Every event is said and every history read, and all lines tell positive figures."""
    few = ["--events", "50", "--histories", "1", "--repeats", "2"]
    assert dialects.main(few) in {0, 1}
    lines = capsys.readouterr().out.splitlines()
    names = ["text", "thoughts", "call", "logprobs", "history"]
    assert [line.split()[0] for line in lines] == names
    assert all(float(line.split()[1]) > 0 for line in lines)
