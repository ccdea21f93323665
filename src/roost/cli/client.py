"""SHELL: verbs that ask a running gateway: where it is, with which key, and what went wrong."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import msgspec

from roost.cli import options
from roost.errors import RoostError, fail
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from roost.config import Settings

T = TypeVar("T")
TIMEOUT_S = 10.0
REASONS = {401: "unauthorized", 403: "forbidden", 404: "not_found"}


class _Told(msgspec.Struct):
    message: str = "it does not say why"


class _Refusal(msgspec.Struct):
    error: _Told


def ask(
    settings: Settings, path: str, method: str = "GET", sent: bytes | None = None
) -> dict[str, object]:
    """Ask for a path of the gateway, with JSON to send or without, and decode its own.

    Raises `not_found` where none runs here, `bad_request` for an address that is none,
    `unauthorized` for a key it does not accept and `upstream_error` for everything else.
    """
    url = located(settings)
    status, body = _fetch(url, path, method, settings.api_key, sent)
    reason = REASONS.get(status, "upstream_error")
    if status < 300:
        try:
            return msgspec.json.decode(body, type=dict[str, object])
        except msgspec.MsgspecError:
            raise fail(reason, f"{url} answers with what is no JSON: is it roost?") from None
    hint = " Leave out /v1." if urlsplit(url).path.rstrip("/").endswith("/v1") else ""
    raise fail(reason, f"{url} answers {status}: {in_one_line(_message(body))}{hint}")


def read_as(body: object, kind: type[T]) -> T:
    """Return a gateway's answer, or a part of it, as what it should be.

    Raises `upstream_error` where it is something else.
    """
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError:
        message = "The gateway's answer is not the expected one: is it of another version?"
        raise fail("upstream_error", message) from None


def located(settings: Settings) -> str:
    """Return the gateway's address; raises `not_found` where none is named and none runs here."""
    return settings.url or _running(settings)


def opened(url: str, timeout_s: float) -> tuple[HTTPConnection, str]:
    """Make a connection to a gateway, and say what its paths begin with.

    Raises `bad_request` for an address that is none.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host:
        raise fail("bad_request", "--url needs http://HOST:PORT or https://HOST:PORT.")
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    return kind(host, port, timeout=timeout_s), parts.path.rstrip("/")


def bearer(key: str) -> dict[str, str]:
    """Return the headers that say who asks."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def silent(url: str, error: Exception) -> RoostError:
    """Build the failure for an address at which nobody answers."""
    why = type(error).__name__
    return fail("upstream_error", f"No gateway answers at {url} ({why}).")


def _running(settings: Settings) -> str:
    instance = options.open_home(settings).running_instance()
    if instance is None:
        raise fail("not_found", "No gateway runs here; name one with --url or ROOST_URL.")
    # A gateway on every address answers to loopback, and to no wildcard.
    return instance.url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _fetch(url: str, path: str, method: str, key: str, sent: bytes | None) -> tuple[int, bytes]:
    made, root = opened(url, TIMEOUT_S)
    with closing(made) as connection:
        try:
            kind = {} if sent is None else {"Content-Type": "application/json"}
            connection.request(method, root + path, sent, headers={**bearer(key), **kind})
            reply = connection.getresponse()
            return reply.status, reply.read()
        except (OSError, HTTPException) as error:
            raise silent(url, error) from None


def _message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).error.message
    except msgspec.MsgspecError:
        return _Told().message
