"""Log lines are JSON unless somebody watches, and every event in the code is in the list."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import roost
from roost.observe import logs


def test_json_lines_carry_event_level_time_and_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """A line can be read by a machine and holds what the caller bound and said."""
    logs.configure("info", "json")
    log = logs.get(node="n1")
    log.debug("fields_ignored", fields=["x"])
    log.info("node_joined", models=2)
    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "node_joined"
    assert line["level"] == "info"
    assert (line["node"], line["models"]) == ("n1", 2)
    assert line["timestamp"].endswith("Z")


def test_a_value_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences in what a client chose are shown, not obeyed."""
    logs.configure("info", "human")
    logs.get().info("request_done", model="\x1b[31mred\x07\r\nfake line", seconds=1)
    shown = capsys.readouterr().err
    assert "\x1b[31m" not in shown
    assert "\x07" not in shown
    assert "fake line" in shown
    assert shown.count("\n") == 1


def _logged(tree: ast.AST) -> set[str]:
    found = set()
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        owner = ast.unparse(call.func.value)
        verbs = ("debug", "info", "warning", "error")
        if call.func.attr in verbs and owner.split(".")[-1].strip("_").endswith("log"):
            first = call.args[0] if call.args else None
            found.add(first.value if isinstance(first, ast.Constant) else f"? {ast.unparse(call)}")
    return {str(name) for name in found}


def test_every_logged_event_is_in_the_list() -> None:
    """An event that the list does not explain cannot be logged; each is a literal."""
    root = Path(roost.__file__).parent
    said = {
        event: str(path.relative_to(root))
        for path in root.rglob("*.py")
        for event in _logged(ast.parse(path.read_text(encoding="utf-8")))
    }
    unknown = {event: path for event, path in said.items() if not logs.known(event)}
    assert unknown == {}
