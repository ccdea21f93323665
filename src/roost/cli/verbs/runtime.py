"""WIRING: `roost runtime`: the control plane of a running gateway, for people and scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roost.fleet.watching.memory_views import MemoryView
    from roost.fleet.watching.promises import NodePromises

DESCRIPTION = """\
info: what runs there, and its limits. capabilities: what each node promises for each of its models,
in six words, with a reason. memory: what each node has and what is taken. list: every runtime.
requests: what runs and what ended last; a tenant sees its own.
"""


def main(arguments: list[str]) -> int:
    """Ask the gateway and print what it says."""
    parser = options.parser("runtime", DESCRIPTION, options.ASKS)
    parser.add_argument("action", nargs="?", default="info", choices=tuple(_SHOWN))
    parser.add_argument("--json", action="store_true", help="print the gateway's own JSON")
    parsed = parser.parse_args(arguments)
    from roost.cli.client import ask, read_as

    path, lines = _SHOWN[parsed.action]
    body = ask(options.load(parsed).settings, f"/roost/v1/{path}")
    if parsed.json:
        options.print_json(body)
        return 0
    data = read_as(body.get("data"), dict[str, object])
    for line in lines(data):
        print(line)
    return 0


def _info(data: dict[str, object]) -> Iterator[str]:
    for name in ("service", "service_version", "protocol", "backends", "limits"):
        yield f"{name:<16} {_plain(data.get(name))}"


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "none"
    if isinstance(value, float):
        return f"{value:.3f}"
    return "-" if value is None else str(value)


def _capabilities(data: dict[str, object]) -> Iterator[str]:
    from roost.cli.client import read_as
    from roost.fleet.watching.promises import NodePromises

    for node in read_as(data.get("nodes"), list[NodePromises]):
        yield f"{node.node} ({node.state})"
        yield from _promises(node)


def _promises(node: NodePromises) -> Iterator[str]:
    from roost.text.screen import in_one_line

    for promise in node.promises:
        yield f"  {promise.id:<38} {promise.status:<18} {in_one_line(promise.reason)}"
    for model in node.models:
        yield f"  {in_one_line(model.model)} on {in_one_line(model.backend) or 'nobody'}"
        for promise in model.promises:
            yield f"    {promise.id:<36} {promise.status:<18} {in_one_line(promise.reason)}"


def _memory(data: dict[str, object]) -> Iterator[str]:
    from roost.cli.client import read_as
    from roost.fleet.watching.memory_views import MemoryView

    for node in read_as(data.get("nodes"), list[MemoryView]):
        yield f"{node.node}: {node.overall_pressure} pressure, {node.topology} memory"
        yield from _pools(node)


def _pools(node: MemoryView) -> Iterator[str]:
    for name, pool in (("host", node.host), ("accelerator", node.accelerator)):
        sizes = (pool.capacity_bytes, pool.available_bytes, pool.managed_bytes, pool.reserved_bytes)
        words = ("in all", "free", "by runtimes", "by loads")
        told = [f"{_bytes(size)} {word}" for size, word in zip(sizes, words, strict=True)]
        yield f"  {name:<12} {', '.join(told)}"


def _bytes(size: int | None) -> str:
    return "unknown" if size is None else options.human_bytes(size)


def _listed(data: dict[str, object]) -> Iterator[str]:
    names = ("node", "model", "backend", "state", "kv_tokens", "load_s", "failure")
    yield from _table(data.get("runtimes"), names, "no runtime is known there")


def _requests(data: dict[str, object]) -> Iterator[str]:
    yield f"{'totals':<10} {_plain(data.get('totals'))}"
    names = ("id", "model", "state", "elapsed_seconds", "output_tokens", "decode_tokens_per_second")
    yield from _table(data.get("requests"), names, "no request is known there")


def _table(rows: object, names: tuple[str, ...], nothing: str) -> Iterator[str]:
    from roost.cli.client import read_as
    from roost.text.screen import in_one_line

    found = read_as(rows, list[dict[str, object]])
    for row in found:
        yield "  ".join(in_one_line(_plain(row.get(name))) for name in names)
    if not found:
        yield nothing


_SHOWN: dict[str, tuple[str, Callable[[dict[str, object]], Iterator[str]]]] = {
    "info": ("info", _info),
    "capabilities": ("capabilities", _capabilities),
    "memory": ("memory", _memory),
    "list": ("runtimes", _listed),
    "requests": ("observability", _requests),
}
