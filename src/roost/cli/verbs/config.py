"""WIRING: `roost config`: the settings in force and where each comes from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

from roost.cli import options
from roost.config import TABLE
from roost.config.load import Fault
from roost.config.read import read_all
from roost.config.show import Shown, describe
from roost.errors import RoostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from roost.config import Settings

_Read = TypeVar("_Read")
DESCRIPTION = """\
show: every setting in force, its unit and its source. check: only say whether all of them are
right. Both read flags, ROOST_* variables and the settings file, as every other verb does; a FILE
is read in its place, as by --config. Everything that is wrong is told at once; then the exit code
is 2.
"""


def main(arguments: list[str]) -> int:
    """Show or check the settings."""
    names = [row.name for row in TABLE if row.name != "home"]
    parser = options.parser("config", DESCRIPTION, names)
    parser.add_argument("action", nargs="?", default="show", choices=("show", "check"))
    parser.add_argument("file", nargs="?", metavar="FILE", help="a settings file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_intermixed_args(arguments)
    if parsed.file and parsed.config:
        parser.error("FILE and --config are two files; name one")
    loaded, faults = read_all({**vars(parsed), "config": parsed.file or parsed.config})
    faults = (*faults, *_meaningless(loaded.settings))
    options.warn_unknown(loaded)
    lines = describe(loaded) if parsed.action == "show" else []
    if parsed.json:
        _print_json(lines, faults, checked=parsed.action == "check")
    else:
        for line in lines:
            print(_row(line))
        if not lines and not faults:
            print("every setting is right")
    for fault in faults:
        print(f"roost config: {fault.message}", file=sys.stderr)
    return 2 if faults else 0


def _meaningless(settings: Settings) -> Iterator[Fault]:
    """Find texts that are well formed and mean nothing to whoever reads them."""
    from roost.cli.parts.aliases import read_aliases
    from roost.cli.parts.node import check_backend, kept_alive
    from roost.cli.parts.worker_door import read_where
    from roost.gateway.foreign.address import read_nets
    from roost.store.credentials.fixed_keys import read_keys, read_tokens

    def wrong(read: Callable[[_Read], object], value: _Read) -> Iterator[Fault]:
        try:
            read(value)
        except RoostError as error:
            yield Fault(error.failure.param or "", error.failure.message)

    yield from wrong(read_keys, settings.keys)
    yield from wrong(read_tokens, settings.node_tokens)
    yield from wrong(read_aliases, settings.aliases)
    yield from wrong(check_backend, settings)
    yield from wrong(kept_alive, settings.runtime_keep_alive)
    yield from wrong(read_nets, settings.coordinator_worker_nets)
    if settings.worker_api:
        yield from wrong(read_where, settings.worker_api)


def _print_json(lines: Sequence[Shown], faults: Sequence[Fault], *, checked: bool) -> None:
    if not checked:
        options.print_json([line._asdict() for line in lines])
        return
    wrong = [fault._asdict() for fault in faults]
    options.print_json({"ok": not faults, "faults": wrong})


def _row(line: Shown) -> str:
    value = ",".join(line.value) if isinstance(line.value, tuple) else str(line.value)
    return f"{line.name:<28} {value:<24} {line.unit:<12} {line.origin}"
