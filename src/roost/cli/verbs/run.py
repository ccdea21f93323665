"""SHELL: `roost run`: one question to a model of a running gateway, and its answer."""

from __future__ import annotations

import sys
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from roost.cli import client, options
from roost.cli.oneshot import OneShot
from roost.errors import fail
from roost.text.screen import screened

if TYPE_CHECKING:
    from argparse import Namespace

    from roost.config import Settings

DESCRIPTION = """\
Ask a model of a running gateway once, and print its answer as it comes. Without a PROMPT it is what
comes on standard input; --request FILE (or -) sends a whole chat request as it is, with what the
other options say in place of its own. Nothing is kept: see `roost chat` for conversations. Exit
code 0 is a complete answer, 1 one that is not, and 2 a question that cannot be asked.
"""
CHATS = "/v1/chat/completions"
WHOLE_S = 3600.0
"""For a reply that comes in one piece."""
INPUT_MAX_BYTES = 16 * 1024 * 1024
_SAMPLING = (
    ("--temperature", float, "T", "0 is the likeliest word every time"),
    ("--top-p", float, "P", "from the likeliest words that make up this share"),
    ("--seed", int, "N", "the same one gives the same answer"),
)


def main(arguments: list[str]) -> int:
    """Ask once."""
    parser = options.parser("run", DESCRIPTION, options.ASKS)
    parser.add_argument("model", nargs="?", default="", metavar="MODEL", help="who is asked")
    parser.add_argument("prompt", nargs="*", metavar="PROMPT", help="what; words are joined")
    parser.add_argument("--request", default="", metavar="FILE", help="a chat request as JSON")
    parser.add_argument("--system", default="", metavar="TEXT", help="what the model is told first")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="of the answer")
    for flag, kind, name, what in _SAMPLING:
        parser.add_argument(flag, type=kind, metavar=name, help=what)
    parser.add_argument("--json", action="store_true", help="print the whole reply as it comes")
    parser.add_argument("--verbose", action="store_true", help="say what it took, on stderr")
    parsed = parser.parse_args(arguments)
    if parsed.request and (parsed.prompt or parsed.system):
        parser.error("--request has its own messages; leave out PROMPT and --system")
    if not parsed.request and not parsed.model:
        parser.error("MODEL is missing; `roost models` lists what is installed")
    settings = options.load(parsed).settings
    body = _body(parsed)
    try:
        return _ask(settings, body, parsed)
    except KeyboardInterrupt:
        # Its connection is closed: the gateway stops the model.
        return 130


def _body(parsed: Namespace) -> dict[str, object]:
    """Put together what is asked; raises `bad_request`."""
    body: dict[str, object] = {}
    if parsed.request:
        body |= _request(parsed.request)
    else:
        body["messages"] = _messages(parsed)
    for name in ("model", "max_tokens", "temperature", "top_p", "seed"):
        value = getattr(parsed, name)
        if value not in (None, ""):
            body[name] = value
    if not body.get("model"):
        raise fail("bad_request", "Neither the request nor the command line names a model.")
    body["stream"] = not parsed.json
    if not parsed.json:
        body["stream_options"] = {"include_usage": True}
    return body


def _request(name: str) -> dict[str, object]:
    text = _input() if name == "-" else _file(name)
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.MsgspecError:
        message = "--request needs a chat request: one JSON object."
        raise fail("bad_request", message, param="request") from None


def _file(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            return _text(file.read(INPUT_MAX_BYTES + 1))
    except OSError as error:
        message = f"--request: the file cannot be read ({error.strerror})."
        raise fail("bad_request", message, param="request") from None


def _messages(parsed: Namespace) -> list[dict[str, str]]:
    prompt = " ".join(parsed.prompt) or _input()
    if not prompt.strip():
        raise fail("bad_request", "There is no PROMPT, neither on the command line nor on stdin.")
    system = [{"role": "system", "content": parsed.system}] if parsed.system else []
    return [*system, {"role": "user", "content": prompt}]


def _input() -> str:
    if sys.stdin.isatty():
        raise fail("bad_request", "There is no PROMPT; `roost chat` talks in a terminal.")
    return _text(sys.stdin.buffer.read(INPUT_MAX_BYTES + 1))


def _text(raw: bytes) -> str:
    if len(raw) > INPUT_MAX_BYTES:
        raise fail("bad_request", f"That is more than {INPUT_MAX_BYTES} bytes.")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise fail("bad_request", "That is no text in UTF-8.") from None


def _ask(settings: Settings, body: dict[str, object], parsed: Namespace) -> int:
    where = client.located(settings)
    # A whole reply comes when it is complete: what keeps streams alive is not said on its way.
    wait_s = WHOLE_S if parsed.json else client.SILENCE_S
    sent, one = msgspec.json.encode(body), OneShot()
    try:
        with client.replying(where, settings.api_key, CHATS, sent, "POST", wait_s) as reply:
            _follow(reply, one, as_json=parsed.json)
    except _Unread:
        # Its connection is closed: the gateway stops the model.
        raise BrokenPipeError from None
    except (OSError, HTTPException) as error:
        why = "The connection ended before the answer did."
        one.on_failed(why if one.text else client.silent(where.url, error).failure.message)
    return _told(one, parsed)


class _Unread(Exception):  # noqa: N818 - nothing is wrong
    """Nobody reads what is written any more: a pipe into `head` has what it wanted."""


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise _Unread from None


def _follow(reply: HTTPResponse, one: OneShot, *, as_json: bool) -> None:
    if not as_json or reply.status != client.OK:
        client.listen(reply, one, lambda data: _write(screened(one.on_event(data))))
        return
    raw = reply.read()
    one.on_body(raw)
    if not one.failure:
        _write(raw.decode(errors="replace").rstrip() + "\n")


def _told(one: OneShot, parsed: Namespace) -> int:
    if one.text and not one.text.endswith("\n") and not parsed.json:
        sys.stdout.write("\n")
    sys.stdout.flush()
    if one.failure:
        print(f"roost run: {one.failure}", file=sys.stderr)
        return 1
    if one.reason == "length" and not parsed.json:
        print("roost run: cut at the most tokens it may have (--max-tokens)", file=sys.stderr)
    if parsed.verbose and one.usage is not None:
        took = (
            f"{one.usage.prompt_tokens} tokens of prompt, {one.usage.completion_tokens} of answer"
        )
        print(f"roost run: {took}, ended by {one.reason or 'nothing'}", file=sys.stderr)
    return 0
