"""WIRING: `roost conversations`: what a gateway keeps of named conversations."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from roost.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping

DESCRIPTION = """\
List the conversations that a gateway keeps, show what was said in one, or remove one for good. A
key goes into ROOST_API_KEY or --api-key: its conversations are the ones meant. With an admin key
the list has everybody's, and rm --tenant removes somebody else's.
"""


def main(arguments: list[str]) -> int:
    """Ask the gateway and print what it says."""
    parser = options.parser("conversations", DESCRIPTION, ("url", "api_key"))
    parser.add_argument("--json", action="store_true", help="print the gateway's own JSON")
    parser.add_argument("action", nargs="?", default="list", choices=("list", "show", "rm"))
    parser.add_argument("name", nargs="?", help="for show and rm: the conversation_id")
    parser.add_argument("--tenant", default="", help="for rm: whose it is, as the list says")
    parsed = parser.parse_args(arguments)
    if parsed.action != "list" and not parsed.name:
        parser.error(f"{parsed.action} needs the name of a conversation")
    from roost.cli.client import ask

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
        print(told(body))
    else:
        print(listed(body))
    return 0


def listed(body: Mapping[str, object]) -> str:
    """Write the list for people, one conversation a line."""
    views = body["conversations"]
    assert isinstance(views, list), "the gateway lists conversations"
    return "\n".join(row(view) for view in views) or "nothing is kept of any conversation"


def row(view: Mapping[str, object]) -> str:
    """Write one conversation."""
    when = _when(view["active_unix_s"])
    where = f"{view['model']} on {view['node']}"
    name = view["name"] or "(without a name)"
    return f"{name}  {view['turns']} turns  {when}  {where}  {view['tenant']}"


def told(body: Mapping[str, object]) -> str:
    """Write what was said, one message after the other."""
    messages = body["messages"]
    assert isinstance(messages, list), "a conversation has messages"
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in messages)


def _when(unix_s: object) -> str:
    assert isinstance(unix_s, (int, float)), "a time is a number"
    return datetime.fromtimestamp(unix_s).astimezone().strftime("%Y-%m-%d %H:%M")
