"""Style as a test: limits that may only get tighter, each with the reason in its finding.

The numbers. A function has at most 70 lines; per room the median is at most 8 and the 90th
percentile at most 30. These two leave docstrings out: a rule that asks for documentation must not
be paid for with another. Rooms of fewer than 30 functions, and cli, may have a median of 10;
below 10 functions only the hard limit counts. Nesting counts `if`, `for`, `while`, `try` and
`match` up to 3; `with` brackets a scope without choosing or repeating, so it may add one more
level, never two.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from statistics import median

import pytest

from tests.calls import calls_allowed, imports_light, imports_safe
from tests.source import ROOT, Function, Source, dotted, parse, shipped, sources

Check = Callable[[Source], Iterable[str]]

# Whoever is first reads the whole source, beside whatever else runs on the machine.
pytestmark = pytest.mark.timeout(300)
FUNCTION_LINES, FILE_LINES, COLUMNS, PARAMETERS = 70, 450, 100, 6
FOLDER_MODULES = 40
NESTING, NESTING_WITH_SCOPES = 3, 4
BLOB_BYTES = 512 * 1024
NO_ROOM = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc"}

# Run by name from outside, so that nothing has to import them.
ENTRY_POINTS = re.compile(
    r"roost\.(cli|bench|testing)\b|roost\.__main__|roost\.sim\.run$|.*\.shim$"
)

# The words are written in pieces, so that this file does not hold what it looks for.
MARKERS = re.compile(
    r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b"
)
FOREIGN = re.compile(
    "|".join(
        (
            r"(^|[^\w])/" + r"(work|farm|root|home)/",
            r"/Us" + r"ers/",
            r"/tmp/" + r"lab",
            r"\." + r"library",
            r"files\.python" + r"hosted",
            r"pypi\.org/" + r"simple",
            r"registry\.npm" + r"js",
            r"farm-" + r"(bench|studio)",
        )
    ),
    re.MULTILINE,
)
WEAK = (
    "xf" + "ail",
    "pytest.sk" + "ip",
    "mark.sk" + "ip",
    "importor" + "skip",
    "raise NotImpl" + "emented",
)
PATCHES = ("unittest.mock", "pytest_mock", "monkeypatch.setattr", "mock.patch")


def kind_named(source: Source) -> Iterator[str]:
    """Ask every shipped module for its kind."""
    if source.shipped and not source.kind:
        yield "the docstring begins with VALUE, DECIDER, MACHINE, SHELL or WIRING and a colon"


def lines_short(source: Source) -> Iterator[str]:
    """Limit the columns of a line and the lines of a file."""
    lines = source.text.splitlines()
    if len(lines) > FILE_LINES:
        yield f"{len(lines)} lines; a file ends at {FILE_LINES}: split it by what changes together"
    for number, line in enumerate(lines, 1):
        if (columns := len(line.partition("  # noqa")[0])) > COLUMNS:
            yield f"line {number} has {columns} columns, {COLUMNS} fit"


def _length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _length_without_docstring(function: Function) -> int:
    first = function.body[0]
    has_docstring = ast.get_docstring(function, clean=False) is not None
    spared = (first.end_lineno or first.lineno) - first.lineno + 1 if has_docstring else 0
    return max(1, _length(function) - spared)


def functions_small(source: Source) -> Iterator[str]:
    """Limit the length of a function and the number of its parameters."""
    for function in source.functions():
        if _length(function) > FUNCTION_LINES:
            yield f"{function.name} has {_length(function)} lines, {FUNCTION_LINES} fit on a screen"
        arguments = function.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > PARAMETERS:
            yield f"{function.name} takes {count} parameters; over {PARAMETERS}, pass a struct"


def _blocks(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Give the children, each with whether it is an `elif`, which is no deeper than its `if`."""
    for child in ast.iter_child_nodes(node):
        lonely = isinstance(node, ast.If) and node.orelse == [child]
        yield child, lonely and isinstance(child, ast.If)


NEW_START = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
DEEPER = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match)


def _depths(function: ast.AST) -> Iterator[tuple[int, int]]:
    left = [(function, 0, 0)]
    while left:
        node, choices, scopes = left.pop()
        for child, is_elif in _blocks(node):
            # No expression but a lambda holds a statement.
            if isinstance(child, (*NEW_START, ast.expr)):
                continue
            choice = choices + (isinstance(child, DEEPER) and not is_elif)
            scope = scopes + isinstance(child, (ast.With, ast.AsyncWith))
            yield choice, choice + scope
            left.append((child, choice, scope))


def nesting_flat(source: Source) -> Iterator[str]:
    """Limit how deep a function goes; a nested function starts anew."""
    for function in source.functions():
        depths = list(_depths(function))
        choices, total = (max((d[i] for d in depths), default=0) for i in (0, 1))
        if choices > NESTING or total > NESTING_WITH_SCOPES:
            yield f"{function.name} nests {max(choices, total)} deep: return early or name a part"


def _public(body: list[ast.stmt], *, methods: bool) -> Iterator[Function | ast.ClassDef]:
    for node in body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if node.name.startswith("_"):
            continue
        yield node
        if isinstance(node, ast.ClassDef) and methods:
            yield from _public(node.body, methods=True)


def _is_setter(node: Function | ast.ClassDef) -> bool:
    return any(isinstance(d, ast.Attribute) for d in node.decorator_list)


def documented(source: Source) -> Iterator[str]:
    """Ask public names of roost, and every test, for a docstring."""
    for node in _public(source.tree.body, methods=source.shipped):
        wanted = source.shipped or node.name.startswith(("test", "Test"))
        if wanted and not _is_setter(node) and not ast.get_docstring(node):
            yield f"{node.name} has no docstring"


def nothing_left_over(source: Source) -> Iterator[str]:
    """Find markers of unfinished work, tests that cannot fail and patched functions."""
    yield from (
        f"{m.group()} is left over: do it or file it" for m in MARKERS.finditer(source.text)
    )
    yield from (
        f"{word}: a stub or a test that cannot fail" for word in WEAK if word in source.text
    )
    if source.path != "tests/test_tidy.py":
        patched = (word for word in PATCHES if word in source.text)
        yield from (f"{word}: use a fake that is a real implementation" for word in patched)
    for node in source.nodes:
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant) and node.test.value:
            yield "an assertion of a constant cannot fail"


def well_named(source: Source) -> Iterator[str]:
    """Refuse modules and rooms whose name says nothing."""
    for part in source.name.split("."):
        if part in NO_ROOM:
            yield f"{part} names no subject: everything would end up there"


def signatures_typed(source: Source) -> Iterator[str]:
    """Refuse `Any` in a signature: it turns the type checker off for every caller."""
    for function in source.functions():
        a = function.args
        arguments = (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg)
        notes = [x.annotation for x in arguments if x and x.annotation]
        notes += [function.returns] if function.returns else []
        if any(dotted(n) in {"Any", "typing.Any"} for note in notes for n in ast.walk(note)):
            yield f"{function.name} has Any in its signature: say what it takes"


def at_home_anywhere(source: Source) -> Iterator[str]:
    """Refuse places of one machine and hosts of registries."""
    yield from (
        f"{m.group().strip()} belongs to one machine" for m in FOREIGN.finditer(source.text)
    )


CHECKS: tuple[Check, ...] = (
    kind_named,
    lines_short,
    functions_small,
    nesting_flat,
    documented,
    nothing_left_over,
    well_named,
    calls_allowed,
    imports_safe,
    imports_light,
    signatures_typed,
    at_home_anywhere,
)


def room_small(name: str, room: Iterable[Source]) -> Iterator[str]:
    """Limit the median and the 90th percentile of a room's functions."""
    lengths = sorted(_length_without_docstring(f) for s in room for f in s.functions())
    if len(lengths) < 10:
        return
    # Wiring is lists of parts to be put together: short steps would only hide the list.
    loose = len(lengths) < 30 or name == "cli"
    middle, limit = median(lengths), 10 if loose else 8
    if middle > limit:
        yield f"{name}: the median function has {middle} lines, {limit} is the limit"
    if (p90 := lengths[len(lengths) * 9 // 10]) > 30:
        yield f"{name}: one function in ten is over {p90} lines, 30 is the limit"


def dead_modules(modules: Iterable[Source]) -> Iterator[str]:
    """Find modules that no other module imports or names."""
    modules = tuple(modules)
    used = {target for s in modules for target in _mentions(s) if target != s.name}
    for source in modules:
        packaged = source.path.endswith("__init__.py")
        if not packaged and not ENTRY_POINTS.match(source.name) and source.name not in used:
            yield f"{source.name} is imported by nothing"


def _mentions(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{a.name}" for a in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def _assert_none(findings: Iterable[str]) -> None:
    listed = list(findings)
    assert not listed, "\n" + "\n".join(listed)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_source_is_tidy(check: Check) -> None:
    """Every file of the project passes the check."""
    _assert_none(f"{s.path}: {finding}" for s in sources() for finding in check(s))


def test_rooms_have_small_functions() -> None:
    """In every room the usual function fits in a glance."""
    rooms: dict[str, list[Source]] = {}
    for source in shipped():
        rooms.setdefault(source.room, []).append(source)
    _assert_none(f for name, room in sorted(rooms.items()) for f in room_small(name, room))


def test_no_module_is_dead() -> None:
    """Every module is imported, named or an entry point."""
    _assert_none(dead_modules(shipped()))


def crowded(modules: Iterable[Source]) -> Iterator[str]:
    """Find folders in which nobody sees any more what belongs together."""
    counted = Counter(source.path.rpartition("/")[0] for source in modules)
    for folder, modules_there in counted.items():
        if modules_there > FOLDER_MODULES:
            yield f"{folder} has {modules_there} modules: find the parts that it consists of"


def test_no_folder_is_crowded() -> None:
    """A room that grows gets parts before it becomes a list."""
    _assert_none(crowded(shipped()))
    many = [parse("", f"src/roost/fleet/m{n}.py") for n in range(FOLDER_MODULES + 1)]
    assert list(crowded(many)) == [
        "src/roost/fleet has 41 modules: find the parts that it consists of"
    ]
    assert list(crowded(many[:-1])) == []


def test_every_tracked_file_is_small_and_at_home() -> None:
    """No large blob, and no text that names one machine, is part of the project."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)  # noqa: S607 - git is wherever the machine has it
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    present = [p for p in paths if p.is_file()]
    assert [p.name for p in present if p.stat().st_size > BLOB_BYTES] == []
    prose = [p for p in present if p.suffix != ".py" and p.name != "LICENSE"]
    found = {p.name: FOREIGN.findall(p.read_text("utf-8", "ignore")) for p in prose}
    assert {name: words for name, words in found.items() if words} == {}


DOC = '"""SHELL: a sample."""\n'
BAD: tuple[tuple[Check, str, str], ...] = (
    (kind_named, '"""Does things."""\n', "begins with"),
    (kind_named, "x = 1\n", "begins with"),
    (lines_short, "x = 1\n" * 451, "451 lines"),
    (lines_short, f"x = '{'y' * 100}'\n", "columns"),
    (functions_small, "def f():\n" + "    x = 1\n" * 70, "71 lines"),
    (functions_small, "def f(a, b, c, d, *, e, f, g): ...\n", "7 parameters"),
    (functions_small, "class A:\n def f(self, a, b, c, d, e, f, g): ...\n", "7 parameters"),
    (nesting_flat, "def f():\n if a:\n  for b in c:\n   while d:\n    if e: pass\n", "nests 4"),
    (
        nesting_flat,
        "def f():\n with a:\n  with b:\n   if c:\n    if d:\n     if e: pass\n",
        "nests 5",
    ),
    (documented, "def f(): ...\n", "f has no docstring"),
    (documented, "class A: ...\n", "A has no docstring"),
    (documented, 'class A:\n "A."\n def f(self): ...\n', "f has no docstring"),
    (nothing_left_over, "x = 1  # TO" + "DO later\n", "left over"),
    (nothing_left_over, "assert " + "True\n", "cannot fail"),
    (nothing_left_over, "raise NotImpl" + "ementedError\n", "stub"),
    (nothing_left_over, "from unittest.mock import Mock\n", "fake"),
    (calls_allowed, "eval('1')\n", "runs what it reads"),
    (calls_allowed, "asyncio.Queue()\n", "unbounded"),
    (calls_allowed, "asyncio.Queue[int](0)\n", "unbounded"),
    (calls_allowed, "asyncio.get_running_loop().create_task(f())\n", "TaskGroup"),
    (calls_allowed, "print('x')\n", "print outside cli"),
    (calls_allowed, "asyncio.create_task(f())\n", "TaskGroup"),
    (calls_allowed, "x = os.environ['HOME']\n", "add a row"),
    (calls_allowed, '"""MACHINE: x."""\ntime.time()\n', "take `now`"),
    (calls_allowed, '"""DECIDER: x."""\ndatetime.datetime.now()\n', "take `now`"),
    (imports_safe, "import pickle\n", "use msgspec"),
    (imports_safe, "from marshal import loads\n", "use msgspec"),
    (imports_light, "import numpy as np\n", "only with an extra"),
    (imports_light, "from torch.nn import Module\n", "only with an extra"),
    (signatures_typed, "def f(a: dict[str, Any]): ...\n", "has Any"),
    (signatures_typed, "def f() -> typing.Any: ...\n", "has Any"),
    (at_home_anywhere, "x = '/" + "root/x'\n", "one machine"),
    (at_home_anywhere, "x = 'files.python" + "hosted.org'\n", "one machine"),
)


@pytest.mark.parametrize(("check", "text", "finding"), BAD)
def test_each_check_can_fail(check: Check, text: str, finding: str) -> None:
    """A tiny offence is found and named."""
    assert any(finding in found for found in check(parse(text)))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_each_check_accepts_good_code(check: Check) -> None:
    """Code that keeps the rules passes every check, `elif` chains and scopes included."""
    chain = (
        "    if a:\n        return 1\n" + "    elif b:\n        return 2\n" * 5 + "    return 3\n"
    )
    deep = "async def g():\n    'G.'\n    with a:\n        if b:\n            for c in d:\n"
    deep += "                if e:\n                    await asyncio.sleep(0)\n"
    text = DOC + 'def f(a: int, b: int) -> int:\n    """F."""\n' + chain + deep
    assert list(check(parse(text))) == []


def test_tests_are_held_to_their_own_rules() -> None:
    """In tests sleeping and missing docstrings are found, and yielding once is not sleeping."""
    test = parse("async def test_x():\n    await asyncio.sleep(1)\n", "tests/fleet/test_x.py")
    assert list(documented(test)) == ["test_x has no docstring"]
    assert ["eventually" in finding for finding in calls_allowed(test)] == [True]
    yielding = parse("await asyncio.sleep(0)\n", "tests/fleet/test_x.py")
    assert list(calls_allowed(yielding)) == []


def test_names_that_say_nothing_are_found() -> None:
    """A file or a room called after nothing is refused."""
    assert list(well_named(parse("", "src/roost/fleet/utils.py"))) != []
    assert list(well_named(parse("", "src/roost/common/x.py"))) != []


def test_a_room_of_long_functions_is_found() -> None:
    """Ten functions of twelve lines break the median, two of forty among ten the percentile."""
    of_lines = [parse("def f():\n" + "    x = 1\n" * (lines - 1)) for lines in (2, 12, 40)]
    short, middling, long = of_lines
    assert "median" in next(room_small("r", [middling] * 10))
    assert "one function in ten" in next(room_small("r", [short] * 8 + [long] * 2))
    assert list(room_small("r", [short] * 10)) == []


def test_a_dead_module_is_found() -> None:
    """A module nobody imports is dead; one that is imported or named in a string lives."""
    alone = parse("", "src/roost/fleet/alone.py")
    user = parse(
        "from roost.fleet import used\nx = 'roost.fleet.lazy:f'\n", "src/roost/cli/main.py"
    )
    used, lazy = (parse("", f"src/roost/fleet/{n}.py") for n in ("used", "lazy"))
    found = list(dead_modules([alone, user, used, lazy]))
    assert found == ["roost.fleet.alone is imported by nothing"]
