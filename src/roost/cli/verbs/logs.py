"""WIRING: `roost logs`: what the runtimes on this machine have said."""

from __future__ import annotations

import codecs
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from roost.cli import options
from roost.errors import RoostError, fail
from roost.text.screen import screened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roost.config import Settings
    from roost.store.runtime_logs import RuntimeLog

DESCRIPTION = """\
Show the last lines that the runtime of a model on this machine has said, or follow it with -f; a
runtime's id will do as well while its gateway runs. What counts prompts of a model that is not
loaded has a log of its own, which --vocabulary shows. Without a name it lists the logs there are,
newest first. roost's own log goes to standard error; a service's is kept by the journal.
"""
LINES = 100
LINES_MAX = 100_000
POLL_S = 0.25


class _Runtime(msgspec.Struct):
    model: str
    runtime: str | None = None


class _Node(msgspec.Struct):
    runtimes: list[_Runtime] = []


def main(arguments: list[str]) -> int:
    """List the logs, or show one."""
    parser = options.parser("logs", DESCRIPTION, options.ASKS)
    parser.add_argument("name", nargs="?", metavar="MODEL|RUNTIME", help="whose log to show")
    parser.add_argument(
        "-n", "--lines", type=int, default=LINES, help=f"how many (default {LINES})"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")
    parser.add_argument("--node", default="", help="of this node, where several run here")
    parser.add_argument(
        "--vocabulary", action="store_true", help="of what counts the model's prompts"
    )
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    parsed = parser.parse_args(arguments)
    if not 0 <= parsed.lines <= LINES_MAX:
        parser.error(f"--lines is from 0 to {LINES_MAX}")
    if (parsed.follow or parsed.vocabulary) and not parsed.name:
        parser.error(f"{'-f' if parsed.follow else '--vocabulary'} needs the name of a model")
    from roost.store.runtime_logs import runtime_logs

    settings = options.load(parsed).settings
    found = runtime_logs(options.open_home(settings))
    found = [log for log in found if parsed.node in ("", log.node)]
    if not parsed.name:
        return _list(found, as_json=parsed.json)
    found = [log for log in found if log.counts == parsed.vocabulary]
    _show(_named(settings, found, parsed.name), parsed.lines, follow=parsed.follow)
    return 0


def _list(found: Sequence[RuntimeLog], *, as_json: bool) -> int:
    if as_json:
        told = [
            (log.model, log.node, log.size_bytes, log.changed_unix_s, log.counts) for log in found
        ]
        names = ("model", "node", "size_bytes", "changed_unix_s", "vocabulary")
        options.print_json([dict(zip(names, one, strict=True)) for one in told])
        return 0
    for log in found:
        at = datetime.fromtimestamp(log.changed_unix_s, UTC).strftime("%Y-%m-%d %H:%M")
        name = f"{log.model} --vocabulary" if log.counts else log.model
        print(f"{name:<40} {log.node}  {at}  {options.human_bytes(log.size_bytes):>9}")
    if not found:
        print("no runtime has said anything here yet", file=sys.stderr)
    return 0


def _named(settings: Settings, found: Sequence[RuntimeLog], name: str) -> RuntimeLog:
    """Return the newest log of a model, or of the model of a runtime; raises `not_found`."""
    from roost.store.runtime_logs import log_name

    names = [log.path.name for log in found]
    for wanted in (name, _model_of(settings, name)):
        name_of = log_name(wanted, counts=bool(found) and found[0].counts) if wanted else ""
        if name_of in names:
            return found[names.index(name_of)]
    known = ", ".join(dict.fromkeys(log.model for log in found)) or "none"
    raise fail("not_found", f"There is no log of {name}. There are: {known}.")


def _model_of(settings: Settings, runtime: str) -> str:
    """Ask the gateway whose runtime this is; "" where nobody knows."""
    from roost.cli.client import fleet_as

    try:
        nodes = fleet_as(settings, _Node)
    except RoostError:
        return ""
    listed = (one for node in nodes for one in node.runtimes)
    return next((one.model for one in listed if one.runtime == runtime), "")


def _show(log: RuntimeLog, lines: int, *, follow: bool) -> None:
    from roost.store.runtime_logs import Follower, last_lines

    # Opened before the lines are read: what is added in between is rather told twice than never.
    follower = Follower(log.path)
    for line in last_lines(log.path, lines):
        print(screened(line.decode("utf-8", "replace")))
    # A character may be cut where one reading ends and the next begins.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while follow:
            added = follower.more()
            if added:
                print(screened(decoder.decode(added)), end="", flush=True)
            else:
                sys.stdout.flush()
                time.sleep(POLL_S)
    finally:
        follower.close()
