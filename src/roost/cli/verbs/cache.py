"""WIRING: `roost cache`: what on disk can be done without."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from roost.cli import options
from roost.errors import RoostError
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from roost.store.cache import Disk, Entry

DESCRIPTION = """\
List what roost keeps on this disk and can do without, or remove it: idle conversations' KV of nodes
that ended (chat-kv), what was said (chat-history), unfinished pulls (downloads), runtimes' logs
(logs), model files that no manifest names (orphans) and what killed processes left (temp).
Installed models are never touched; what is in use stays. `purge` says what it would remove, and
does so with --execute. What was said goes only by its id or with --include-history.
"""


def main(arguments: list[str]) -> int:
    """Run one subcommand."""
    from roost.store.cache import KINDS, disk_of, entries

    parser = options.parser("cache", DESCRIPTION)
    parser.add_argument("action", nargs="?", default="list", choices=("list", "purge"))
    parser.add_argument("id", nargs="?", help="for purge: one entry, as the list names it")
    parser.add_argument("--kind", choices=KINDS, help="only entries of this kind")
    parser.add_argument("--all", action="store_true", help="for purge: every entry")
    parser.add_argument("--include-history", action="store_true", help="what was said, too")
    parser.add_argument("--execute", action="store_true", help="remove it, in place of a preview")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    if parsed.action == "purge" and not (parsed.id or parsed.all or parsed.kind):
        parser.error("purge needs an ID, --kind or --all")
    if parsed.id and (parsed.all or parsed.kind):
        parser.error("an ID is one entry; leave out --all and --kind")
    disk = disk_of(options.open_home(options.load(parsed).settings))
    found = [one for one in entries(disk) if parsed.kind in (None, one.kind)]
    if parsed.action == "purge":
        return _purge(disk, found, parsed)
    _print(found, as_json=parsed.json)
    return 0


def _purge(disk: Disk, found: list[Entry], parsed: Namespace) -> int:
    from roost.store.cache import HISTORY, purge

    if parsed.id and (parsed.execute or parsed.id not in [one.id for one in found]):
        purge(disk, parsed.id)
        print(f"{in_one_line(parsed.id)} removed")
        return 0
    chosen = [one for one in found if parsed.id in (None, one.id)]
    if not (parsed.id or parsed.include_history):
        chosen = [one for one in chosen if one.kind != HISTORY]
    going = [one for one in chosen if not one.in_use]
    if parsed.execute:
        going = list(_removed(disk, going))
    _print(going, as_json=parsed.json)
    for kept in (one for one in chosen if one.in_use):
        print(f"{in_one_line(kept.id)} stays: {kept.in_use}", file=sys.stderr)
    if not parsed.execute:
        print("nothing was removed; --execute removes what is listed", file=sys.stderr)
    return 0


def _removed(disk: Disk, going: list[Entry]) -> Iterator[Entry]:
    """Remove entries; what was taken into use meanwhile stays, and is named."""
    from roost.store.cache import purge

    for entry in going:
        try:
            purge(disk, entry.id)
        except RoostError as error:
            print(f"{in_one_line(entry.id)} stays: {error.failure.message}", file=sys.stderr)
            continue
        yield entry


def _print(found: list[Entry], *, as_json: bool) -> None:
    if as_json:
        options.print_json(found)
        return
    for one in found:
        size = options.human_bytes(one.size_bytes)
        print(f"{in_one_line(one.id):<48} {size:>10}  {one.in_use}".rstrip())
