"""Who may import whom: rooms in layers, kinds of module, one owner per foreign library.

An upper room may import a lower one, never the other way round, and rooms on a line do not know
each other; within a room nobody imports in circles. A room that is not in the table fails, so a new
one is a decision and not an accident. Imports inside functions and under TYPE_CHECKING count for
layers and circles: who knows a name knows its room.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from tests.source import PURE, Source, parse, shipped

# Whoever is first reads the whole source, beside whatever else runs on the machine.
pytestmark = pytest.mark.timeout(300)
LAYERS = (
    ("__main__",),
    ("cli",),
    ("sim", "bench", "testing"),
    ("gateway", "node"),
    ("backends", "store"),
    ("fleet", "wire", "dialects", "observe"),
    ("text", "config"),
    ("core",),
    ("errors",),
)
DEPTH = {room: depth for depth, rooms in enumerate(reversed(LAYERS)) for room in rooms}

# A pure module is told what time it is, what is random and what has arrived; it asks nobody.
IMPURE = {
    *("asyncio", "anyio", "concurrent", "contextvars", "multiprocessing", "queue", "sched"),
    *("selectors", "signal", "socket", "socketserver", "ssl", "subprocess", "threading", "_thread"),
    *("http.client", "http.server", "urllib.request", "ftplib", "smtplib", "sqlite3"),
    *("fcntl", "glob", "io", "mmap", "os", "pathlib", "pty", "resource", "shutil", "tempfile"),
    *("time", "random", "secrets", "uuid", "logging", "atexit", "gc"),
}
# What a pure module may use besides the standard library: plain data, in every room.
PLAIN = {"msgspec"}
# The sandbox of chat templates is a pure function of a template and messages.
PURE_LIBRARIES = {("roost.text", "jinja2")}
# What defines a room is what it cannot know.
ABSENT = {
    "fleet": {"json", "http", "urllib", "email", "html", "msgspec.json"},
    "dialects": {"socket", "ssl", "asyncio", "http", "urllib"},
    "gateway": {"jinja2", "tokenizers", "roost.text.template", "roost.text.templates"},
}


class Import(NamedTuple):
    """One imported module, where it stands and whether only the type checker sees it."""

    module: str
    line: int
    typing_only: bool


def _typing_only(tree: ast.Module) -> set[ast.AST]:
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If)]
    guards = [n for n in blocks if ast.unparse(n.test).removeprefix("typing.") == "TYPE_CHECKING"]
    return {child for guard in guards for part in guard.body for child in ast.walk(part)}


def _modules(node: ast.AST, source: Source) -> Iterator[str]:
    """Give what an import statement imports, `from a import b` as both `a` and `a.b`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parts = source.name.split(".")
            base = ".".join([*parts[: len(parts) - node.level], *filter(None, [base])])
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


def imports(source: Source) -> list[Import]:
    """List every import of a module, also those inside functions."""
    typing_only = _typing_only(source.tree)
    return [
        Import(module, node.lineno, node in typing_only)
        for node in source.nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for module in _modules(node, source)
    ]


def _room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == "roost" and len(parts) > 1 else ""


def rooms_layered(source: Source) -> Iterator[str]:
    """Find imports that go up or sideways, and rooms that are not in the table."""
    if source.room and source.room not in DEPTH:
        yield f"room {source.room} is not in LAYERS: decide where it stands"
        return
    for item in imports(source):
        target = _room(item.module)
        if target not in DEPTH or target == source.room:
            continue
        if not source.room or DEPTH[target] >= DEPTH[source.room]:
            yield f"line {item.line}: {source.room or 'roost'} may not import {target}"


def circles(modules: Iterable[Source]) -> list[str]:
    """Find modules that import each other, by however many steps; each circle is told once."""
    found = {source.name: {item.module for item in imports(source)} for source in modules}
    following = {name: sorted(found.keys() & taken - {name}) for name, taken in found.items()}
    done: set[str] = set()
    told: list[str] = []

    def walk(way: tuple[str, ...]) -> None:
        for name in following[way[-1]]:
            if name in way:
                told.append(" -> ".join((*way[way.index(name) :], name)))
            elif name not in done:
                walk((*way, name))
        done.add(way[-1])

    for name in following:
        if name not in done:
            walk((name,))
    return told


def _part(module: str) -> str:
    """Name the part of a room that a module is in, or the module where it lies beside the parts."""
    return ".".join(module.split(".")[:3])


def part_circles(modules: Iterable[Source]) -> list[str]:
    """Find parts of a room that need each other, or stand on such, though no two modules do."""
    found: dict[str, set[str]] = {}
    names = {source.name for source in modules}
    for source in modules:
        taken = {item.module for item in imports(source)} & names
        own = _part(source.name)
        same = {_part(name) for name in taken if _room(name) == source.room} - {own}
        found.setdefault(own, set()).update(same)
    # What stands on nothing that is left is taken away, until only circles are left.
    while firm := [part for part, below in found.items() if not below & found.keys()]:
        for part in firm:
            del found[part]
    return sorted(found)


def _below(module: str, names: set[str]) -> bool:
    return any(f"{module}.".startswith(f"{name}.") for name in names)


def kinds_pure(source: Source) -> Iterator[str]:
    """Find waiting, clocks, dice, files, sockets and foreign libraries in pure modules."""
    if source.kind not in PURE:
        return
    for item in imports(source):
        top = item.module.partition(".")[0]
        if item.typing_only or top == "roost":
            continue
        allowed = top in sys.stdlib_module_names | PLAIN or _plain_here(source, top)
        if _below(item.module, IMPURE) or not allowed:
            yield f"line {item.line}: {item.module} in a {source.kind}: pass in what it would tell"
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    declared = _declared(source)
    for node in source.nodes:
        if isinstance(node, waits) and node not in declared:
            yield f"line {node.lineno}: a {source.kind} never waits: return an effect"


def _declared(source: Source) -> set[ast.AST]:
    """Give the methods of protocols: they say what others do, and do nothing."""
    classes = [n for n in source.nodes if isinstance(n, ast.ClassDef)]
    protocols = [c for c in classes if any("Protocol" in ast.unparse(base) for base in c.bases)]
    return {method for protocol in protocols for method in protocol.body}


def _plain_here(source: Source, library: str) -> bool:
    return any(source.name.startswith(room) and library == lib for room, lib in PURE_LIBRARIES)


def kinds_layered(source: Source, kinds: dict[str, str]) -> Iterator[str]:
    """Find pure modules that import a shell, and a simulator that runs one."""
    simulated = source.room == "sim"
    if source.kind not in PURE and not simulated:
        return
    for item in imports(source):
        kind = kinds.get(item.module, "VALUE")
        own = simulated and _room(item.module) == "sim"
        if kind not in PURE and not item.typing_only and not (own and source.kind not in PURE):
            who = "the simulator" if simulated else f"a {source.kind}"
            yield f"line {item.line}: {who} imports {item.module}, a {kind}"


def absences_kept(source: Source) -> Iterator[str]:
    """Find what a room is defined by not knowing."""
    banned = ABSENT.get(source.room, set())
    for item in imports(source):
        if _below(item.module, banned):
            yield f"line {item.line}: {source.room} may not know {item.module}"


def owners(modules: Iterable[Source]) -> dict[str, set[str]]:
    """Map each foreign library to the modules that import it."""
    found: dict[str, set[str]] = {}
    for source in modules:
        for item in imports(source):
            top = item.module.partition(".")[0]
            if top not in sys.stdlib_module_names | PLAIN | {"roost"}:
                found.setdefault(top, set()).add(source.name)
    return found


def shared_libraries(modules: Iterable[Source]) -> list[str]:
    """Find foreign libraries that more than one module imports."""
    return [
        f"{library} is imported by {', '.join(sorted(names))}: one module owns a library"
        for library, names in sorted(owners(modules).items())
        if len(names) > 1
    ]


def _kinds() -> dict[str, str]:
    """Map modules to kinds, without package files that hold nothing but a docstring."""
    return {source.name: source.kind for source in shipped() if len(source.tree.body) > 1}


def _assert_none(findings: Iterable[str]) -> None:
    listed = list(findings)
    assert not listed, "\n" + "\n".join(listed)


def test_rooms_are_layered() -> None:
    """No room imports a room above or beside it, and every room is in the table."""
    _assert_none(f"{s.path}: {f}" for s in shipped() for f in rooms_layered(s))


def test_nobody_imports_in_circles() -> None:
    """Two modules that need each other are one, or the lower says in a protocol what it needs."""
    _assert_none(circles(shipped()))


def test_parts_of_rooms_are_layered() -> None:
    """Within a room a part may use another one, and then that one does not know it."""
    assert part_circles(shipped()) == []
    near = parse("from roost.node.b import y\n", "src/roost/node/a/x.py")
    far = parse("from roost.node.a import z\n", "src/roost/node/b/y.py")
    assert part_circles([near, parse("", "src/roost/node/b/y.py")]) == []
    found = part_circles([near, far, parse("", "src/roost/node/a/z.py")])
    assert found == ["roost.node.a", "roost.node.b"]


def test_kinds_are_pure() -> None:
    """Values, deciders and machines touch nothing outside themselves."""
    _assert_none(f"{s.path}: {f}" for s in shipped() for f in kinds_pure(s))


def test_kinds_are_layered() -> None:
    """Pure modules import pure modules; the simulator imports machines and its own shells."""
    kinds = _kinds()
    _assert_none(f"{s.path}: {f}" for s in shipped() for f in kinds_layered(s, kinds))


def test_absences_are_kept() -> None:
    """A room does not know what it is defined by not knowing."""
    _assert_none(f"{s.path}: {f}" for s in shipped() for f in absences_kept(s))


def test_each_library_has_one_owner() -> None:
    """A foreign library is imported by one module, which is where it can be replaced."""
    _assert_none(shared_libraries(shipped()))


MACHINE = '"""MACHINE: a sample."""\n'


@pytest.mark.parametrize(
    ("path", "statement", "finding"),
    [
        ("src/roost/attic/x.py", "", "attic is not in LAYERS"),
        ("src/roost/fleet/x.py", "from roost.node import agent", "fleet may not import node"),
        ("src/roost/fleet/x.py", "import roost.wire.codec", "fleet may not import wire"),
        ("src/roost/fleet/x.py", "from roost import gateway", "fleet may not import gateway"),
        ("src/roost/gateway/x.py", "from roost.node import agent", "gateway may not import node"),
        ("src/roost/sim/x.py", "from roost.testing import pair", "sim may not import testing"),
        ("src/roost/errors.py", "from roost.core import ids", "errors may not import core"),
        ("src/roost/core/x.py", "def f():\n from roost.config import load", "core may not import"),
        ("src/roost/fleet/x.py", "from ..cli import main", "fleet may not import cli"),
        ("src/roost/__init__.py", "from roost.errors import fail", "roost may not import errors"),
    ],
)
def test_wrong_direction_is_found(path: str, statement: str, finding: str) -> None:
    """An import up or sideways, absolute, relative or inside a function, is found."""
    assert any(finding in found for found in rooms_layered(parse(statement + "\n", path)))


def test_right_direction_is_accepted() -> None:
    """Downwards and within the room is fine, and so is the package itself for its version."""
    text = (
        "from roost import __version__\nfrom roost.core import ids\nfrom roost.fleet import queue\n"
    )
    assert list(rooms_layered(parse(text, "src/roost/fleet/x.py"))) == []


def test_a_circle_is_found() -> None:
    """Circles of two and of three are found, also where only the type checker goes round."""
    guard = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n "
    one = parse("from roost.fleet.b import B\n", "src/roost/fleet/a.py")
    two = parse(guard + "from roost.fleet import c\n", "src/roost/fleet/b.py")
    end = parse("import msgspec\n", "src/roost/fleet/c.py")
    assert circles([one, two, end]) == []
    back = parse("def f():\n from roost.fleet.a import A\n", "src/roost/fleet/c.py")
    assert circles([one, two, back]) == [
        "roost.fleet.a -> roost.fleet.b -> roost.fleet.c -> roost.fleet.a"
    ]
    near = parse("from .a import A\n", "src/roost/fleet/b.py")
    assert circles([one, near, end]) == ["roost.fleet.a -> roost.fleet.b -> roost.fleet.a"]


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("import asyncio", "asyncio in a MACHINE"),
        ("import random", "random in a MACHINE"),
        ("from time import monotonic", "time in a MACHINE"),
        ("import os.path", "os.path in a MACHINE"),
        ("from urllib import request", "urllib.request in a MACHINE"),
        ("from pathlib import Path", "pathlib in a MACHINE"),
        ("import structlog", "structlog in a MACHINE"),
        ("import jinja2", "jinja2 in a MACHINE"),
        ("def f():\n import os", "os in a MACHINE"),
        ("async def f(): ...", "never waits"),
        ("class P(Protocol):\n async def f(self):\n  await g()", "never waits"),
    ],
)
def test_impure_machine_is_found(statement: str, finding: str) -> None:
    """A machine that could wait, read a clock, roll dice or touch the world is found."""
    assert any(finding in found for found in kinds_pure(parse(MACHINE + statement + "\n")))


def test_pure_machine_is_accepted() -> None:
    """Plain data, types for the checker only and the named exceptions are fine."""
    guarded = "if TYPE_CHECKING:\n    import random\n"
    assert (
        list(kinds_pure(parse(MACHINE + "import msgspec\nimport urllib.parse\n" + guarded))) == []
    )
    contract = "class P(Protocol):\n    async def f(self) -> int: ...\n"
    assert list(kinds_pure(parse(MACHINE + contract))) == []
    template = parse(MACHINE + "import jinja2\n", "src/roost/text/template.py")
    assert list(kinds_pure(template)) == []
    shell = parse('"""SHELL: x."""\nimport asyncio\n')
    assert list(kinds_pure(shell)) == []


def test_shell_below_a_machine_is_found() -> None:
    """A pure module may not reach the world through a shell it imports."""
    kinds = {"roost.store.disk": "SHELL", "roost.sim.run": "SHELL", "roost.fleet.queue": "MACHINE"}
    machine = parse(MACHINE + "from roost.store import disk\n", "src/roost/node/x.py")
    assert list(kinds_layered(machine, kinds)) == [
        "line 2: a MACHINE imports roost.store.disk, a SHELL"
    ]
    shell = '"""SHELL: x."""\n'
    good = parse(
        shell + "from roost.sim import run\nfrom roost.fleet import queue\n", "src/roost/sim/x.py"
    )
    assert list(kinds_layered(good, kinds)) == []
    bad = parse(shell + "from roost.store import disk\n", "src/roost/sim/x.py")
    assert "the simulator imports" in next(kinds_layered(bad, kinds))


@pytest.mark.parametrize(
    ("path", "statement"),
    [
        ("src/roost/fleet/x.py", "import json"),
        ("src/roost/fleet/x.py", "from http import HTTPStatus"),
        ("src/roost/fleet/x.py", "import msgspec.json"),
        ("src/roost/dialects/x.py", "import socket"),
        ("src/roost/gateway/x.py", "import jinja2"),
    ],
)
def test_broken_absence_is_found(path: str, statement: str) -> None:
    """What a room must not know is found by name."""
    assert list(absences_kept(parse(statement + "\n", path))) != []


def test_library_with_two_owners_is_found() -> None:
    """Two modules with the same foreign library are named; one is fine."""
    one, two = (parse("import jinja2\n", f"src/roost/text/{name}.py") for name in ("a", "b"))
    assert shared_libraries([one]) == []
    assert shared_libraries([one, two]) == [
        "jinja2 is imported by roost.text.a, roost.text.b: one module owns a library"
    ]
