"""Log lines are JSON unless somebody watches, and every event in the code is in the list."""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from functools import cache

import pytest

from roost.observe import logs
from roost.observe.names import EVENTS, METRICS
from tests.source import dotted, parse, shipped


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


VERBS = frozenset({"debug", "info", "warning", "error"})
EVENT = re.compile(r"[a-z]+(_[a-z]+)*")


def _is_log(annotation: ast.AST | None) -> bool:
    return annotation is not None and re.search(r"\bLog\b", ast.unparse(annotation)) is not None


def _last(node: ast.AST) -> str:
    return dotted(node).rpartition(".")[2]


def _says_log(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression is a logger: `logs.get(…)`, or something of a name that is one."""
    if isinstance(node, ast.Call):
        return dotted(node.func) == "logs.get"
    return _last(node) in names


def _names_of_logs(nodes: Sequence[ast.AST]) -> set[str]:
    """Collect the last names of parameters, variables and attributes that are loggers."""
    named = {n.arg for n in nodes if isinstance(n, ast.arg) and _is_log(n.annotation)}
    named |= {
        _last(n.target) for n in nodes if isinstance(n, ast.AnnAssign) and _is_log(n.annotation)
    }
    before = -1
    while len(named) > before:
        before = len(named)
        for node in nodes:
            if isinstance(node, ast.Assign) and _says_log(node.value, named):
                named |= {_last(target) for target in node.targets}
    return named - {""}


def _events(nodes: Sequence[ast.AST], names: set[str]) -> Iterator[str]:
    """Give every event that is logged; what is logged without being a literal begins with `?`.

    A call with a name like an event's counts whoever is called, so that a logger in disguise is
    seen; a logger's method that is passed on instead of called cannot be followed.
    """
    called = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    for call in called:
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr not in VERBS:
            continue
        said = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
        if isinstance(said, str) and EVENT.fullmatch(said):
            yield said
        elif _says_log(call.func.value, names):
            yield f"? {ast.unparse(call)}"
    functions = {call.func for call in called}
    for node in nodes:
        if not isinstance(node, ast.Attribute) or node in functions:
            continue
        if node.attr in VERBS and _says_log(node.value, names):
            yield f"? {ast.unparse(node)}"


def _found_in(text: str) -> set[str]:
    nodes = parse(text).nodes
    return set(_events(nodes, _names_of_logs(nodes)))


@cache
def _all_events() -> dict[str, str]:
    # Attributes such as `office.log` are declared in one file and used in others.
    names = _names_of_logs([node for source in shipped() for node in source.nodes])
    # One module passes on what others say, under whatever name.
    saying = [source for source in shipped() if source.name != "roost.gateway.watching.chronicle"]
    return {event: s.path for s in saying for event in _events(s.nodes, names)}


def test_calls_of_loggers_are_found_whatever_they_are_called() -> None:
    """Parameters, attributes, copies and `logs.get()` count; a parser's `error` does not."""
    assert _found_in("logs.get().info('one')") == {"one"}
    assert _found_in("logs.get(node='n').bind.info('two', x=1)") == {"two"}
    assert _found_in("def f(ear: Log): ear.warning(name)") == {"? ear.warning(name)"}
    assert _found_in("class A:\n    ear: Log | None\na.ear.error(x)") == {"? a.ear.error(x)"}
    assert _found_in("ear = logs.get()\nother.ear = ear\nother.ear.debug(x)") == {
        "? other.ear.debug(x)"
    }
    assert _found_in("def f(ear: Log): g(ear.info)") == {"? ear.info"}
    assert _found_in("parser.error('No such file.')\nvoice.error(failure)") == set()


def test_every_logged_event_is_in_the_list() -> None:
    """An event that the list does not explain cannot be logged; each is a literal."""
    unknown = {event: path for event, path in _all_events().items() if not logs.known(event)}
    assert unknown == {}


def test_every_event_of_the_list_is_logged_somewhere() -> None:
    """The list explains nothing that no code says."""
    assert EVENTS.keys() - _all_events().keys() == set()


def test_metrics_in_code_are_those_of_the_list() -> None:
    """Every metric of the list is named somewhere else, and no code names one that is not there."""
    used = {
        constant.value
        for source in shipped()
        if source.name != "roost.observe.names"
        for constant in source.nodes
        if isinstance(constant, ast.Constant)
        and isinstance(constant.value, str)
        and re.fullmatch(r"roost_[a-z0-9_]+", constant.value)
    }
    assert used == {metric.name for metric in METRICS}


class NobodyReads(io.StringIO):
    """A pipe whose other end is closed."""

    def write(self, text: str, /) -> int:
        """Fail."""
        raise BrokenPipeError(text)


def test_a_log_that_nobody_reads_stops_nobody() -> None:
    """Without this TERM found a gateway that could not say that it was stopping, and did not."""
    with redirect_stderr(NobodyReads()):
        logs.get().warning("stopping", grace_s=1.0)
