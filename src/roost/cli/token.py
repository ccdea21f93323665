"""WIRING: `roost token`: a token with which nodes join; needs no running gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.cli import options

if TYPE_CHECKING:
    from roost.store.tokens import NewToken

DESCRIPTION = """\
Make a join token for this ROOST_HOME's gateway. It is shown once, is good for many nodes and ends
when it is revoked or expires. --list shows the valid ones, --revoke ID ends one.
"""


def main(arguments: list[str]) -> int:
    """Issue, list or revoke."""
    parser = options.parser("token", DESCRIPTION)
    parser.add_argument("--ttl-s", type=float, metavar="S", help="seconds until it expires")
    parser.add_argument("--list", action="store_true", help="list the valid tokens, without them")
    parser.add_argument(
        "--revoke", metavar="ID", help="end a token; its nodes stay until they drop"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    from roost.store.database import Database
    from roost.store.tokens import TokenStore

    store = TokenStore(Database.open(options.open_home(options.load(parsed).settings)))
    if parsed.revoke:
        return options.report_revoked("token", parsed.revoke, found=store.revoke(parsed.revoke))
    if parsed.list:
        options.print_records(store.list(), as_json=parsed.json)
        return 0
    _show(store.issue(parsed.ttl_s), as_json=parsed.json)
    return 0


def _show(made: NewToken, *, as_json: bool) -> None:
    if as_json:
        options.print_json({"token": made.secret, "id": made.record.id})
    else:
        print(made.secret)
