"""WIRING: `roost health`: whether a process of roost answers, for health checks and scripts."""

from __future__ import annotations

from roost.cli import options
from roost.errors import fail

DESCRIPTION = """\
Ask the gateway that runs here, or the one of --url, whether it lives; with --ready, whether it
could serve a request; with --worker the worker API of a node here instead. Exit code 0 is yes.
"""
SETTINGS = (*options.ASKS, "worker_api")


def main(arguments: list[str]) -> int:
    """Ask once; 1 where nobody answers, or the answer is no."""
    parser = options.parser("health", DESCRIPTION, SETTINGS)
    parser.add_argument("--ready", action="store_true", help="ask whether it could serve")
    parser.add_argument("--worker", action="store_true", help="ask the worker API of a node")
    parsed = parser.parse_args(arguments)
    if parsed.ready and parsed.worker:
        parser.error("--ready is for gateways, --worker for nodes")
    from roost.cli.client import ask

    settings = options.load(parsed).settings
    path = "/ready" if parsed.ready else "/health"
    if parsed.worker:
        if not settings.worker_api:
            raise fail("bad_request", "--worker-api is not set: there is nobody to ask.")
        settings, path = settings._replace(url=f"http://{settings.worker_api}"), "/worker/health"
    print(ask(settings, path).get("status", "ok"))
    return 0
