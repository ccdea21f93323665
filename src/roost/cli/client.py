"""SHELL: verbs that ask a running gateway: where it is, with which key, and what went wrong."""

from __future__ import annotations

import ssl
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from roost.cli import options
from roost.cli.parts.loopback import from_here
from roost.config.read import of_user
from roost.core.hosts import is_host
from roost.errors import REASONS as CATALOGUE
from roost.errors import Failure, RoostError, fail
from roost.node.joining.pinned_tls import pinned_context
from roost.text.screen import in_one_line
from roost.text.sse import SseParser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roost.config import Settings

T = TypeVar("T")
TIMEOUT_S = 10.0
SILENCE_S = 60.0
"""A gateway says something every `stream.keepalive_s` (10 s); after this long it is gone."""
PIECE_BYTES = REFUSAL_MAX_BYTES = 65_536
EVENT_MAX_BYTES = 16 * 1024 * 1024
OK = 200
FLEET = "/roost/v1/fleet"
REASONS = {401: "unauthorized", 403: "forbidden", 404: "not_found"}


class Located(NamedTuple):
    """Where a gateway is, and how its certificate is known.

    By its fingerprint `pin`, or by one of the files of authorities beside the system's own.
    """

    url: str
    pin: str = ""
    authorities: tuple[str, ...] = ()


class Listener(Protocol):
    """Whoever a stream is for."""

    @property
    def over(self) -> bool:
        """Whether nothing more comes that counts."""
        ...

    def on_refused(self, status: int, data: bytes, /) -> None:
        """Take a reply that is no answer."""
        ...

    def on_failed(self, why: str, /) -> None:
        """It is not complete, for this reason."""
        ...

    def on_end(self) -> None:
        """The connection is at its end."""
        ...


class _Told(msgspec.Struct):
    message: str = "it does not say why"


class _Refusal(msgspec.Struct):
    error: _Told


class _Fleet(msgspec.Struct):
    nodes: list[dict[str, object]]
    aliases: dict[str, str] = {}


def ask(
    settings: Settings, path: str, method: str = "GET", sent: bytes | None = None
) -> dict[str, object]:
    """Ask for a path of the gateway, with JSON to send or without, and decode its own.

    Raises `not_found` where none runs here or it has no such path, `bad_request` for an address
    that is none, `unauthorized` for a key it does not accept and `upstream_error` for the rest.
    """
    return ask_at(located(settings), settings.api_key, path, method, sent)


def ask_at(
    where: Located, key: str, path: str, method: str = "GET", sent: bytes | None = None
) -> dict[str, object]:
    """Do the same where somebody is known to be; `not_found` is a path that it lacks."""
    url = where.url
    status, body = _fetch(where, path, method, key, sent)
    reason = REASONS.get(status, "upstream_error")
    if status < 300:
        try:
            return msgspec.json.decode(body, type=dict[str, object])
        except msgspec.MsgspecError:
            raise fail(reason, f"{url} answers with what is no JSON: is it roost?") from None
    said = _message(body)
    hint = _hint(status, said, urlsplit(url).path)
    raise fail(reason, f"{url} answers {status}: {in_one_line(said)}{hint}")


def _hint(status: int, said: str, path: str) -> str:
    if path.rstrip("/").endswith("/v1"):
        return " Leave out /v1."
    if status == 401:
        return " Here that is ROOST_API_KEY or --api-key."
    if status == 404 and said == CATALOGUE["not_found"].meaning:
        return " A gateway with --upstream, or of another release, does not have that."
    return ""


def read_as(body: object, kind: type[T]) -> T:
    """Return a gateway's answer, or a part of it, as what it should be.

    Raises `upstream_error` where it is something else.
    """
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError:
        message = "The gateway's answer is not the expected one: is it of another version?"
        raise fail("upstream_error", message) from None


def fleet_as(settings: Settings, kind: type[T]) -> list[T]:
    """Return every node that the gateway remembers, as what is wanted of one.

    Raises what `ask` and `read_as` do.
    """
    return [read_as(node, kind) for node in read_as(ask(settings, FLEET), _Fleet).nodes]


def model_of(settings: Settings, name: str) -> str:
    """Return which model the gateway means by a name; raises what `ask` and `read_as` do."""
    return read_as(ask(settings, FLEET), _Fleet).aliases.get(name, name)


def located(settings: Settings) -> Located:
    """Return where the gateway is; raises `not_found` where none is named and none runs here."""
    if settings.ca_file:
        authorities: tuple[str, ...] = (str(of_user(settings.ca_file)),)
    else:
        own = Path(settings.home) / "certificate.pem"
        authorities = (str(own),) if own.is_file() else ()
    if settings.url:
        return Located(settings.url, "", authorities)
    instance = options.open_home(settings).running_instance()
    if instance is None:
        raise fail("not_found", "No gateway runs here; name one with --url or ROOST_URL.")
    return Located(from_here(instance.url), instance.fingerprint, authorities)


def opened(where: Located, timeout_s: float) -> tuple[HTTPConnection, str]:
    """Make a connection to a gateway, and say what its paths begin with.

    Raises `bad_request` for an address that is none.
    """
    try:
        parts = urlsplit(where.url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    root = parts.path.rstrip("/")
    if parts.scheme == "http" and is_host(host):
        return HTTPConnection(host, port, timeout=timeout_s), root
    if parts.scheme == "https" and is_host(host):
        return HTTPSConnection(host, port, timeout=timeout_s, context=trusted(where)), root
    raise fail("bad_request", "--url needs http://HOST:PORT or https://HOST:PORT.")


def trusted(where: Located) -> ssl.SSLContext:
    """Return what tells whether a server behind https is the one that is meant."""
    if where.pin:
        return pinned_context(where.pin)
    context = ssl.create_default_context()
    try:
        for file in where.authorities:
            context.load_verify_locations(file)
    except OSError:
        message = "--ca-file: the file cannot be read or holds no certificate."
        raise fail("bad_request", message, param="ca_file") from None
    return context


def bearer(key: str) -> dict[str, str]:
    """Return the headers that say who asks."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def silent(url: str, error: Exception) -> RoostError:
    """Build the failure for an address at which nobody answers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = getattr(error, "verify_message", "")
        message = f"The certificate at {url} is not trusted here ({why}): see --ca-file."
        if not why:
            # The error is ours: the certificate is not the one that was pinned.
            message = (
                f"{url} shows another certificate than the one kept here. If that was renewed, "
                "restart the server or send it HUP: it has the old one until then."
            )
        return fail("upstream_error", message)
    why = type(error).__name__
    return fail(
        "upstream_error", f"No gateway answers at {url} ({why}): start one, or name it with --url."
    )


@contextmanager
def replying(
    where: Located, key: str, path: str, sent: bytes | None, method: str, wait_s: float
) -> Iterator[HTTPResponse]:
    """Ask for a path, with JSON to send or without; the connection is closed behind it.

    `wait_s` is how long the other side may be silent. Raises what `opened` does, and `OSError` or
    `HTTPException` where nobody answers.
    """
    made, root = opened(where, wait_s)
    with closing(made) as connection:
        kind = {} if sent is None else {"Content-Type": "application/json"}
        connection.request(method, root + path, sent, headers={**bearer(key), **kind})
        yield connection.getresponse()


def listen(reply: HTTPResponse, listener: Listener, take: Callable[[bytes], object]) -> None:
    """Read a reply that is a stream: `take` is given the data of each event, until it is over.

    What is no answer, or breaks, is told to the listener.
    """
    if reply.status != OK:
        listener.on_refused(reply.status, reply.read(REFUSAL_MAX_BYTES))
        return
    for event in _events(reply):
        if isinstance(event, Failure):
            listener.on_failed(event.message)
        else:
            take(event)
        if listener.over:
            return
    listener.on_end()


def _events(reply: HTTPResponse) -> Iterator[bytes | Failure]:
    """Read a stream of events to its end: the data of each, or what is wrong with the stream."""
    parser = SseParser(EVENT_MAX_BYTES)
    while piece := reply.read1(PIECE_BYTES):
        for event in parser.push(piece):
            yield event if isinstance(event, Failure) else event.data


def _fetch(
    where: Located, path: str, method: str, key: str, sent: bytes | None
) -> tuple[int, bytes]:
    try:
        with replying(where, key, path, sent, method, TIMEOUT_S) as reply:
            return reply.status, reply.read()
    except (OSError, HTTPException) as error:
        raise silent(where.url, error) from None


def _message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).error.message
    except msgspec.MsgspecError:
        return _Told().message
