"""What code may not call or load, and what takes its place; `test_tidy` asks it of every file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.source import PURE, Source, dotted

# May sleep for real: they wait for a process or a socket, and have a deadline.
SLEEPERS = {"tests/conftest.py", "tests/system/processes.py"}
# May start a task by hand: each keeps it, and ends it on close, or when its time is over.
TASK_OWNERS = {
    *("src/roost/gateway/tasks.py", "src/roost/backends/rendering/renderer.py"),
    "src/roost/node/endings.py",
}

# Come with an extra that neither roost nor its developer tools bring along.
ENGINES = {
    *(
        "accelerate",
        "gguf",
        "mistralrs",
        "mlx",
        "mlx_lm",
        "numpy",
        "onnx",
        "onnx_ir",
        "onnxruntime_genai",
    ),
    *("safetensors", "tokenizers", "torch", "transformers", "vllm"),
}


def _called(call: ast.Call) -> str:
    """Spell what is called: `Queue[int]()` is `Queue`, `loop().stop()` is `loop.stop`."""
    function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call):
        return f"{_called(function.value)}.{function.attr}"
    return dotted(function)


def _unbounded(name: str, call: ast.Call) -> bool:
    owner, _, tail = name.rpartition(".")
    if owner not in {"asyncio", "queue", "multiprocessing"}:
        return False
    sizes = [*call.args, *(k.value for k in call.keywords if k.arg == "maxsize")]
    endless = not sizes or (isinstance(sizes[0], ast.Constant) and not sizes[0].value)
    return tail == "SimpleQueue" or (tail.endswith("Queue") and endless)


def _banned_call(source: Source, call: ast.Call) -> str:
    name = _called(call)
    tail = name.rpartition(".")[2]
    if name in {"eval", "exec", "compile", "__import__"} or name == "yaml.load":
        return f"{name} runs what it reads: parse with msgspec or tomllib"
    if _unbounded(name, call):
        return f"{name}() is unbounded: give it a maxsize from a setting"
    if source.kind in PURE and (name.startswith("time.") or _asks_the_date(name)):
        return f"{name} in a {source.kind}: take `now` as an argument"
    if source.shipped and tail == "print" and source.room != "cli":
        return "print outside cli: log an event, or return the text"
    if source.shipped and _starts_task(name) and source.path not in TASK_OWNERS:
        return f"{name} starts a task nobody waits for: use a TaskGroup"
    if not source.shipped and source.path not in SLEEPERS and _sleeps(name, call):
        return f"{name} in a test: pass `now`, await an event, or use the `eventually` fixture"
    return ""


def _asks_the_date(name: str) -> bool:
    return name.endswith(("datetime.now", "datetime.utcnow", "datetime.today", "date.today"))


def _starts_task(name: str) -> bool:
    owner, _, tail = name.rpartition(".")
    return tail == "ensure_future" or (
        tail == "create_task" and owner.endswith(("asyncio", "loop"))
    )


def _sleeps(name: str, call: ast.Call) -> bool:
    nothing = bool(call.args) and isinstance(call.args[0], ast.Constant) and not call.args[0].value
    return name in {"time.sleep", "asyncio.sleep", "anyio.sleep"} and not nothing


def calls_allowed(source: Source) -> Iterator[str]:
    """Refuse calls that have a better replacement here, and name it."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and (finding := _banned_call(source, node)):
            yield f"line {node.lineno}: {finding}"
        name = dotted(node) if isinstance(node, ast.Attribute) else ""
        reads = name in {"os.environ", "os.getenv", "os.environb"}
        if reads and source.shipped and source.name != "roost.config.read":
            yield f"{name} outside config.read: add a row to the table"


def imports_safe(source: Source) -> Iterator[str]:
    """Refuse serialisers that run code."""
    for node in source.nodes:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in {"pickle", "marshal", "shelve", "dill"}.intersection(names):
            yield f"{name} runs what it loads: use msgspec"


def imports_light(source: Source) -> Iterator[str]:
    """Refuse engines at the top of a module: whoever has none could not even collect the tests."""
    for node in source.tree.body:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in ENGINES.intersection(part.partition(".")[0] for part in names):
            yield f"line {node.lineno}: {name} is there only with an extra: import it where it runs"
