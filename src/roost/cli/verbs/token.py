"""WIRING: `roost token`: a token with which nodes join; needs no running gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.cli import options

if TYPE_CHECKING:
    from roost.config import Settings
    from roost.store.credentials.tokens import NewToken
    from roost.store.home import Home

SETTINGS = ("host", "allowed_hosts", "tls_cert", "tls_key", "insecure_http")
DESCRIPTION = """\
Make a join token for this ROOST_HOME's gateway. It is shown once, is good for many nodes and ends
when it is revoked or expires. It names the certificate by which nodes know the gateway, where that
is this home's own. --list shows the valid ones, --revoke ID ends one.
"""


def main(arguments: list[str]) -> int:
    """Issue, list or revoke."""
    parser = options.parser("token", DESCRIPTION, SETTINGS)
    parser.add_argument("--ttl-s", type=float, metavar="S", help="seconds until it expires")
    parser.add_argument("--list", action="store_true", help="list the valid tokens, without them")
    parser.add_argument(
        "--revoke", metavar="ID", help="end a token; its nodes stay until they drop"
    )
    parser.add_argument(
        "--no-pin", action="store_true", help="name no certificate: a proxy in front has its own"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    from roost.store.credentials.tokens import TokenStore
    from roost.store.database import Database

    settings = options.load(parsed).settings
    home = options.open_home(settings)
    store = TokenStore(Database.open(home))
    if parsed.revoke:
        return options.report_revoked("token", parsed.revoke, found=store.revoke(parsed.revoke))
    if parsed.list:
        options.print_records(store.list(), as_json=parsed.json)
        return 0
    # Before the token: one that could not name the certificate would be no use.
    fingerprint = "" if parsed.no_pin else _fingerprint(settings, home)
    _show(store.issue(parsed.ttl_s), fingerprint, as_json=parsed.json)
    return 0


def _fingerprint(settings: Settings, home: Home) -> str:
    """Return that of this home's own certificate, made now if need be; "" where another counts."""
    from roost.cli.parts.own_tls import names
    from roost.store.credentials.certificate import own_certificate

    running = home.running_instance()
    if settings.tls_cert or settings.insecure_http or (running and not running.fingerprint):
        return ""
    return own_certificate(home, names(settings)).fingerprint


def _show(made: NewToken, fingerprint: str, *, as_json: bool) -> None:
    from roost.store.credentials.secrets import pinned

    token = pinned(made.secret, fingerprint) if fingerprint else made.secret
    if as_json:
        told = {"token": token, "id": made.record.id, "fingerprint": fingerprint or None}
        options.print_json(told)
    else:
        print(token)
