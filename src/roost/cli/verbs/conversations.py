"""WIRING: `roost conversations`: what a gateway keeps of named conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from roost.cli import options
from roost.text.screen import in_one_line, screened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roost.core.conversation import ConversationView, KeptConversation

DESCRIPTION = """\
List the conversations that a gateway keeps, show what was said in one, or remove one for good. A
key goes into ROOST_API_KEY or --api-key: its conversations are the ones meant. With an admin key
the list has everybody's, and rm --tenant removes somebody else's.
"""


def main(arguments: list[str]) -> int:
    """Ask the gateway and print what it says."""
    parser = options.parser("conversations", DESCRIPTION, options.ASKS)
    parser.add_argument("--json", action="store_true", help="print the gateway's own JSON")
    parser.add_argument("action", nargs="?", default="list", choices=("list", "show", "rm"))
    parser.add_argument("name", nargs="?", help="for show and rm: the conversation_id")
    parser.add_argument("--tenant", default="", help="for rm: whose it is, as the list says")
    parsed = parser.parse_args(arguments)
    if parsed.action != "list" and not parsed.name:
        parser.error(f"{parsed.action} needs the name of a conversation")
    from roost.cli.client import ask, read_as
    from roost.core.conversation import KeptConversation, Listed

    path, method = "/roost/v1/conversations", "GET"
    if parsed.action != "list":
        path += f"/{quote(parsed.name, safe='')}"
    if parsed.action == "rm":
        method = "DELETE"
        path += f"?tenant={quote(parsed.tenant, safe='')}" if parsed.tenant else ""
    body = ask(options.load(parsed).settings, path, method)
    if parsed.json:
        options.print_json(body)
    elif parsed.action == "rm":
        print(f"{parsed.name} removed")
    elif parsed.action == "show":
        print(told(read_as(body, KeptConversation)))
    else:
        print(listed(read_as(body, Listed).conversations))
    return 0


def listed(views: Sequence[ConversationView]) -> str:
    """Write the list for people, one conversation a line."""
    return "\n".join(map(row, views)) or "nothing is kept of any conversation"


def row(view: ConversationView) -> str:
    """Write one conversation."""
    when = options.shown("active_unix_s", view.active_unix_s)
    turns, where = options.counted(view.turns, "turn"), f"{view.model} on {view.node}"
    name = view.name or "(without a name)"
    return "  ".join(map(in_one_line, (name, turns, when, where, view.tenant)))


def told(kept: KeptConversation) -> str:
    """Write what was said, one message after the other, and what a model goes on with."""
    said = "\n\n".join(f"{one.role}: {one.content}" for one in kept.messages)
    if kept.summary is not None:
        said += f"\n\nsummary of the first {kept.summary.covers} turns: {kept.summary.text}"
    return screened(said)
