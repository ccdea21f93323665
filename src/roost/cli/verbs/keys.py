"""WIRING: `roost keys`: API keys and what they may use; a running gateway sees changes at once."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from roost.cli import options
from roost.errors import fail

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from roost.store.credentials.keys import KeyStore, NewKey
    from roost.store.credentials.records import KeyRecord, Share
    from roost.store.home import Home

DESCRIPTION = """\
add NAME: make a key and show it once. set ID: change what a key may use; what is not named stays.
list: the valid keys, without them, and the tokens they have used. revoke ID: end one.
forget: drop the records of revoked keys; while any record exists, every request needs a key.
Keys may also stand in the settings file, under [[keys]]: docs/settings.md says how.
"""
LIMITS = {
    "requests_per_minute": "requests a minute; 0 is no limit",
    "tokens_per_minute": "tokens a minute, of prompts and answers; 0 is no limit",
    "at_once": "requests under way at once; 0 is no limit",
    "tokens_per_day": "tokens a day, in UTC; 0 is no limit",
    "tokens_per_month": "tokens a month, in UTC; 0 is no limit",
}


def main(arguments: list[str]) -> int:
    """Run one subcommand."""
    parser = _flags()
    parsed = parser.parse_args(arguments)
    if parsed.action in {"add", "set", "revoke"} and not parsed.name:
        parser.error(f"{parsed.action} needs a {'name' if parsed.action == 'add' else 'key id'}")
    from roost.store.credentials.fixed_keys import read_keys
    from roost.store.credentials.keys import KeyStore
    from roost.store.database import Database

    settings = options.load(parsed).settings
    home = options.open_home(settings)
    store = KeyStore(Database.open(home))
    store.use(read_keys(settings.keys))
    match parsed.action:
        case "set":
            return _set(store, parsed)
        case "revoke":
            _refuse_fixed(parsed.name, "remove")
            key = _found(store, parsed.name)
            found = key is not None and store.revoke(key.id)
            return options.report_revoked("key", parsed.name, found=found)
        case "list":
            _list(store, home, as_json=parsed.json)
        case "forget":
            print(f"{store.forget_revoked()} records dropped")
        case _:
            made = store.add(parsed.name, parsed.role, parsed.tenant, _share(parsed, None))
            _show(made, as_json=parsed.json)
    return 0


def _flags() -> options.Parser:
    parser = options.parser("keys", DESCRIPTION)
    parser.add_argument("action", choices=("add", "set", "list", "revoke", "forget"))
    parser.add_argument("name", nargs="?", help="a name for add, else an id, or a name of one key")
    parser.add_argument("--role", default="user", help="user or admin (default: user)")
    parser.add_argument("--tenant", help="who pays; keys of one tenant share their cache")
    parser.add_argument("--weight", type=float, help="share against other tenants (default: 1)")
    parser.add_argument(
        "--class", dest="class_", help="best class: interactive (the default), agent, bulk"
    )
    for name, meaning in LIMITS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=meaning)
    parser.add_argument(
        "--models", metavar="NAMES", help="the models it may use, with commas; empty is all"
    )
    parser.add_argument(
        "--cache-salt", metavar="NAME", help="share computed prompts with all keys of this salt"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _share(parsed: argparse.Namespace, before: Share | None) -> Share:
    """Put together how a key is served: what is named, and for the rest what was before."""
    import msgspec

    from roost.store.credentials.records import Share

    known = before or Share()
    limits: dict[str, object] = {name: getattr(parsed, name) for name in LIMITS}
    if parsed.models is not None:
        limits["models"] = tuple(one.strip() for one in parsed.models.split(",") if one.strip())
    allowance = msgspec.structs.replace(known.allowance, **_named(limits))
    told = {"weight": parsed.weight, "class_": parsed.class_, "cache_salt": parsed.cache_salt}
    return msgspec.structs.replace(known, allowance=allowance, **_named(told))


def _named(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _set(store: KeyStore, parsed: argparse.Namespace) -> int:
    from roost.store.credentials.records import Share

    _refuse_fixed(parsed.name, "change")
    if parsed.tenant is not None or parsed.role != "user":
        raise fail("bad_request", "Tenant and role of a key do not change: make another key.")
    record = _found(store, parsed.name)
    if record is None:
        print(f"there is no valid key {parsed.name}", file=sys.stderr)
        return 1
    before = Share(record.weight, record.class_, record.allowance, record.cache_salt)
    store.change(record.id, _share(parsed, before))
    print(f"{record.id} changed")
    return 0


def _refuse_fixed(name: str, verb: str) -> None:
    from roost.store.credentials.fixed_keys import ID_PREFIX

    if name.startswith(ID_PREFIX):
        message = f"{name} is in the settings: {verb} it there, and send HUP."
        raise fail("bad_request", message)


def _found(store: KeyStore, name: str) -> KeyRecord | None:
    """Find a kept key by its id, or by its name where only one has it."""
    from roost.store.credentials.fixed_keys import ID_PREFIX

    kept = [one for one in store.list() if not one.id.startswith(ID_PREFIX)]
    by_id = [one for one in kept if one.id == name]
    by_name = [one for one in kept if one.name == name]
    found = by_id or by_name
    return found[0] if len(found) == 1 else None


def _list(store: KeyStore, home: Home, *, as_json: bool) -> None:
    import msgspec

    from roost.fleet.line.allowances import DAY_S, first_of_month
    from roost.store.credentials.usage import UsageStore

    today = int(time.time() // DAY_S)
    usage = UsageStore.open(home)
    spent = usage.since(first_of_month(today))
    usage.close()
    rows = []
    for record in store.list():
        row: dict[str, object] = msgspec.structs.asdict(record)
        del row["allowance"]
        row |= msgspec.structs.asdict(record.allowance)
        mine = [one for one in spent if one.key == record.id]
        row["tokens_today"] = sum(one.tokens for one in mine if one.day == today)
        row["tokens_this_month"] = sum(one.tokens for one in mine)
        rows.append(row)
    if as_json:
        options.print_json(rows)
        return
    for row in rows:
        print(_line(row))


def _line(row: Mapping[str, object]) -> str:
    """Write a key in a line: what every key has, then what is limited, and what is used."""
    plain = ("id", "name", "tenant", "role", "created_unix_s", "weight", "class_")
    said = [options.shown(name, row[name]) for name in plain]
    for name, value in row.items():
        if name not in plain and value:
            text = ",".join(value) if isinstance(value, tuple) else value
            said.append(f"{name}={text}")
    return "  ".join(said)


def _show(made: NewKey, *, as_json: bool) -> None:
    if as_json:
        options.print_json({"key": made.secret, "id": made.record.id})
        return
    print(made.secret)
    print(f"{made.record.id}: keep the key now, it is not shown again", file=sys.stderr)
