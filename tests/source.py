"""The project's own source, parsed once, for the tests that read it."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("VALUE", "DECIDER", "MACHINE", "SHELL", "WIRING")
PURE = ("VALUE", "DECIDER", "MACHINE")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file: `path` is relative to the root, `name` its dotted module name."""

    path: str
    name: str
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]

    @property
    def kind(self) -> str:
        """The first word of the module's docstring, or "" where that is no kind."""
        word = (ast.get_docstring(self.tree) or "").partition(":")[0]
        return word if word in KINDS else ""

    @property
    def room(self) -> str:
        """The first part below `roost`: `fleet`, `errors`, `config`; "" for the package itself."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    @property
    def shipped(self) -> bool:
        """Whether this is part of roost and not of its tests."""
        return self.path.startswith("src/")

    def functions(self) -> Iterator[Function]:
        """Every function, method and nested function."""
        return (n for n in self.nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))


def parse(text: str, path: str = "src/roost/fleet/sample.py") -> Source:
    """Parse `text` as if it were the file at `path`."""
    tree = ast.parse(text)
    return Source(path, module_name(path), text, tree, tuple(ast.walk(tree)))


def module_name(path: str) -> str:
    """Give the dotted name under which the file at `path` is imported."""
    dotted = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    return dotted.removesuffix(".__init__")


@cache
def sources() -> tuple[Source, ...]:
    """Parse every Python file under src and tests, in order of path."""
    return shipped() + _parsed("tests")


@cache
def shipped() -> tuple[Source, ...]:
    """Only what is part of roost."""
    return _parsed("src")


def _parsed(top: str) -> tuple[Source, ...]:
    files = sorted((ROOT / top).rglob("*.py"))
    # A million nodes are made here and none is dropped: the collector, which meanwhile looks
    # through all of them again and again, would take longer than the parser itself.
    collects = gc.isenabled()
    gc.disable()
    try:
        return tuple(parse(p.read_text("utf-8"), p.relative_to(ROOT).as_posix()) for p in files)
    finally:
        if collects:
            gc.enable()


def dotted(node: ast.AST) -> str:
    """Spell `a.b.c` for a name or an attribute chain, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr}" if left else ""
    return ""
