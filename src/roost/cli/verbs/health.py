"""WIRING: `roost health`: whether a process of roost answers, for health checks and scripts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from roost.cli import options
from roost.errors import RoostError, fail

if TYPE_CHECKING:
    from roost.cli.client import Located
    from roost.config import Settings

DESCRIPTION = """\
Ask the gateway that runs here, or the one of --url, whether it lives; with --ready, whether it
could serve a request; with --worker the worker API of a node here instead. Exit code 0 is yes, and
1 is no, or nobody there.
"""
SETTINGS = (*options.ASKS, "worker_api", "tls_cert", "tls_key", "insecure_http")


def main(arguments: list[str]) -> int:
    """Ask once; 1 where nobody answers, or the answer is no."""
    parser = options.parser("health", DESCRIPTION, SETTINGS)
    parser.add_argument("--ready", action="store_true", help="ask whether it could serve")
    parser.add_argument("--worker", action="store_true", help="ask the worker API of a node")
    parsed = parser.parse_args(arguments)
    if parsed.ready and parsed.worker:
        parser.error("--ready is for gateways, --worker for nodes")
    from roost.cli.client import ask_at, located

    settings = options.load(parsed).settings
    try:
        where = _worker(settings) if parsed.worker else located(settings)
    except RoostError as error:
        if error.failure.reason != "not_found":
            raise
        # Elsewhere it is a mistake to ask nobody; here it is the answer.
        print(f"roost health: {error.failure.message}", file=sys.stderr)
        return 1
    path = "/worker/health" if parsed.worker else "/ready" if parsed.ready else "/health"
    told = ask_at(where, settings.api_key, path)
    print(told.get("status", "ok"))
    return 0


def _worker(settings: Settings) -> Located:
    """Return where the worker API of these settings is, and by which certificate it is known."""
    from roost.cli.client import Located
    from roost.cli.parts.loopback import from_here, in_the_clear
    from roost.cli.parts.worker_where import read_where
    from roost.store.credentials.certificate import fingerprint_in, known_certificate

    if not settings.worker_api:
        raise fail("bad_request", "--worker-api is not set: there is nobody to ask.")
    where = read_where(settings.worker_api)
    if in_the_clear(settings._replace(host=where.host)):
        return Located(from_here(f"http://{where.authority}"))
    url = from_here(f"https://{where.authority}")
    if settings.tls_cert:
        return Located(url, fingerprint_in(Path(settings.tls_cert)))
    own = known_certificate(options.open_home(settings))
    if own is None:
        raise fail("not_found", f"Nobody has listened at {url}: this home has no certificate yet.")
    return Located(url, own.fingerprint)
