"""SHELL: verbs that ask a running gateway: where it is, with which key, and what went wrong."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from roost.cli import options
from roost.errors import fail

if TYPE_CHECKING:
    from roost.config import Settings

TIMEOUT_S = 10.0
REASONS = {401: "unauthorized", 403: "forbidden", 404: "not_found"}


class _Told(msgspec.Struct):
    message: str = "it does not say why"


class _Refusal(msgspec.Struct):
    error: _Told


def ask(settings: Settings, path: str, method: str = "GET") -> dict[str, object]:
    """Ask for a path of the gateway and decode its JSON.

    Raises `not_found` where none runs here, `bad_request` for an address that is none,
    `unauthorized` for a key it does not accept and `upstream_error` for everything else.
    """
    url = settings.url or _running(settings)
    status, body = _fetch(url, path, method, settings.api_key)
    if status < 300:
        return msgspec.json.decode(body, type=dict[str, object])
    reason = REASONS.get(status, "upstream_error")
    hint = " Leave out /v1." if urlsplit(url).path.rstrip("/").endswith("/v1") else ""
    raise fail(reason, f"{url} answers {status}: {_message(body)}{hint}")


def _running(settings: Settings) -> str:
    instance = options.open_home(settings).running_instance()
    if instance is None:
        raise fail("not_found", "No gateway runs here; name one with --url or ROOST_URL.")
    # A gateway on every address answers to loopback, and to no wildcard.
    return instance.url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _fetch(url: str, path: str, method: str, key: str) -> tuple[int, bytes]:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise fail("bad_request", "--url needs http://HOST:PORT or https://HOST:PORT.")
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with closing(kind(parts.hostname, parts.port, timeout=TIMEOUT_S)) as connection:
        try:
            connection.request(method, parts.path.rstrip("/") + path, headers=headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except (OSError, HTTPException) as error:
            why = type(error).__name__
            raise fail("upstream_error", f"No gateway answers at {url} ({why}).") from None


def _message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).error.message
    except msgspec.MsgspecError:
        return _Told().message
