"""WIRING: `roost top`: a gateway's fleet on a terminal, as it is now."""

from __future__ import annotations

import argparse
import shutil
from typing import TYPE_CHECKING

from roost.cli import options
from roost.errors import fail

if TYPE_CHECKING:
    from roost.cli.dashboard.source import Source

DESCRIPTION = """\
Show the nodes of a gateway, their runtimes, who waits, what runs and what has happened: the one
that runs here, or the one at --url. Keys drain a node, unload a model and cancel a request, after a
question; that needs a key of the role admin in ROOST_API_KEY or --api-key, but for one's own
requests. Without a terminal that can be taken over: --once, or --json for scripts.
"""
INTERVAL_LEAST_MS, INTERVAL_MOST_MS = 500, 60_000
DEMO_SEED = 7
DEMO_PAST_S = 30.0
EXTRA = "top"


def main(arguments: list[str]) -> int:
    """Show a gateway, or a fleet that is played."""
    parser = options.parser("top", DESCRIPTION, options.ASKS)
    parser.add_argument("--once", action="store_true", help="print one look as text, and end")
    parser.add_argument("--json", action="store_true", help="print one look as JSON, and end")
    parser.add_argument(
        "--demo", action="store_true", help="show a fleet that is played, no server"
    )
    parser.add_argument(
        "--interval-ms", type=_interval, default=2000, help="between two looks (500..60000)"
    )
    parser.add_argument("--no-animation", action="store_true", help="draw without movement")
    parsed = parser.parse_args(arguments)
    source = _source(parsed)
    if parsed.json:
        options.print_json(source.raw())
        return 0
    if parsed.once:
        _once(source)
        return 0
    _interactive(source, parsed.interval_ms / 1000, animated=not parsed.no_animation)
    return 0


def _interval(text: str) -> int:
    if not text.isdecimal() or not INTERVAL_LEAST_MS <= int(text) <= INTERVAL_MOST_MS:
        message = f"{text!r} is not from {INTERVAL_LEAST_MS} to {INTERVAL_MOST_MS} milliseconds"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _source(parsed: argparse.Namespace) -> Source:
    from roost.cli.dashboard.source import DemoSource, GatewaySource

    settings = options.load(parsed).settings
    return DemoSource(DEMO_SEED, DEMO_PAST_S) if parsed.demo else GatewaySource(settings)


def _once(source: Source) -> None:
    from roost.cli.dashboard.page import Standing, page_of
    from roost.cli.dashboard.plain import plain
    from roost.cli.dashboard.source import feed_of

    feed = feed_of(source.raw())
    width = max(80, shutil.get_terminal_size((120, 40)).columns)
    for line in plain(page_of(feed, Standing(source.url)), width):
        print(line)


def _interactive(source: Source, interval_s: float, *, animated: bool) -> None:
    try:
        from roost.cli.dashboard.app import show
    except ModuleNotFoundError:
        from roost.backends.install import install_command

        message = (
            f"The dashboard needs Textual: {install_command(EXTRA)}. "
            "Without it there is `roost top --once`, and --json for scripts."
        )
        raise fail("unsupported", message) from None
    show(source, interval_s, animated=animated)
