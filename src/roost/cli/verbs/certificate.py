"""WIRING: `roost certificate`: the one that this ROOST_HOME has made for itself."""

from __future__ import annotations

from roost.cli import options

SETTINGS = ("host", "allowed_hosts")
DESCRIPTION = """\
show: the certificate that is used beyond this machine where no --tls-cert is given: where it is for
clients (curl --cacert), its SHA-256, and until when it counts. renew: make another, for the names
of --allowed-hosts too; a running gateway takes it when it is started again, and its nodes need new
tokens.
"""


def main(arguments: list[str]) -> int:
    """Show it, or make another."""
    parser = options.parser("certificate", DESCRIPTION, SETTINGS)
    parser.add_argument("action", nargs="?", default="show", choices=("show", "renew"))
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    from roost.cli.parts.own_tls import names
    from roost.errors import fail
    from roost.store.credentials.certificate import known_certificate, renewed_certificate

    settings = options.load(parsed).settings
    home = options.open_home(settings)
    if parsed.action == "renew":
        found = renewed_certificate(home, names(settings))
    else:
        known = known_certificate(home)
        if known is None:
            message = (
                "There is none yet: `roost token`, or a gateway beyond this machine, makes it."
            )
            raise fail("not_found", message)
        found = known
    told = {
        "file": str(found.public),
        "fingerprint": found.fingerprint,
        "ends": found.ends.date().isoformat(),
    }
    if parsed.json:
        options.print_json(told)
        return 0
    for name, value in told.items():
        print(f"{name:<12} {value}")
    if parsed.action == "renew":
        print("restart a running gateway, and give its nodes new tokens: roost token")
    return 0
