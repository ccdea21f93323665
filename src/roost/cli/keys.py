"""WIRING: `roost keys`: API keys; a running gateway sees every change at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from roost.cli import options
from roost.errors import fail

if TYPE_CHECKING:
    from roost.store.keys import KeyStore, NewKey

DESCRIPTION = """\
add NAME: make a key and show it once. list: the valid keys, without them. revoke ID: end one.
forget: drop the records of revoked keys; while any record exists, every request needs a key.
Keys may also stand in the settings file, under [[keys]]: docs/settings.md says how.
"""


def main(arguments: list[str]) -> int:
    """Run one subcommand."""
    parser = options.parser("keys", DESCRIPTION)
    parser.add_argument("action", choices=("add", "list", "revoke", "forget"))
    parser.add_argument("name", nargs="?", help="a name for add, an id or a name for revoke")
    parser.add_argument("--role", default="user", help="user or admin (default: user)")
    parser.add_argument("--tenant", help="who pays; keys of one tenant share quota and cache")
    parser.add_argument("--weight", type=float, default=1.0, help="share against other tenants")
    parser.add_argument(
        "--class", dest="class_", default="interactive", help="best class: interactive, agent, bulk"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    if parsed.action in {"add", "revoke"} and not parsed.name:
        parser.error(f"{parsed.action} needs a {'name' if parsed.action == 'add' else 'key id'}")
    from roost.store.credential_records import Share
    from roost.store.database import Database
    from roost.store.fixed_keys import ID_PREFIX, read_keys
    from roost.store.keys import KeyStore

    settings = options.load(parsed).settings
    store = KeyStore(Database.open(options.open_home(settings)))
    store.use(read_keys(settings.keys))
    if parsed.action == "revoke":
        if parsed.name.startswith(ID_PREFIX):
            message = f"{parsed.name} is in the settings: remove it there, and send HUP."
            raise fail("bad_request", message)
        return options.report_revoked("key", parsed.name, found=_revoke(store, parsed.name))
    if parsed.action == "list":
        options.print_records(store.list(), as_json=parsed.json)
    elif parsed.action == "forget":
        print(f"{store.forget_revoked()} records dropped")
    else:
        share = Share(parsed.weight, parsed.class_)
        made = store.add(parsed.name, parsed.role, parsed.tenant, share)
        _show(made, as_json=parsed.json)
    return 0


def _revoke(store: KeyStore, name: str) -> bool:
    """Revoke by id, or by name where only one key has it."""
    named = [record.id for record in store.list() if record.name == name]
    return store.revoke(name) or (len(named) == 1 and store.revoke(named[0]))


def _show(made: NewKey, *, as_json: bool) -> None:
    if as_json:
        options.print_json({"key": made.secret, "id": made.record.id})
        return
    print(made.secret)
    print(f"{made.record.id}: keep the key now, it is not shown again", file=sys.stderr)
