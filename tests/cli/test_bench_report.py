"""`roost bench report`: files in, a table and a page out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roost.cli.main import run
from tests.bench.load.test_page import result


def test_results_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file is a row, by its name; the page has both."""
    for name in ("before", "after"):
        (tmp_path / f"{name}.json").write_text(json.dumps(result(0.2, 0.3)))
    files = [str(tmp_path / f"{name}.json") for name in ("before", "after")]
    out = tmp_path / "page.html"
    assert run(["bench", "report", *files, "--html", str(out)]) == 0
    told = capsys.readouterr().out
    assert "| before | 2 |" in told
    assert "| after | 2 |" in told
    assert out.read_text().count("<details>") == 2


@pytest.mark.parametrize("content", [None, "{", "[]", "{}"])
def test_what_is_no_result_is_named(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, in one line with the file."""
    file = tmp_path / "x.json"
    if content is not None:
        file.write_text(content)
    assert run(["bench", "report", str(file)]) == 2
    told = capsys.readouterr().err
    assert "x" in told
    assert told.count("\n") == 1
