"""SHELL: the web pages: files of the package, under headers that leave a browser little to do.

Nothing is joined into a path: every file is an address of its own, known from the start, so there
is none that leads out. Pages hold no data. Whoever may reach this server by its name may have them;
what they ask for then, they ask with a key like everybody else.
"""

from __future__ import annotations

import hashlib
from functools import partial
from importlib import resources
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from roost import __version__
from roost.gateway.front.access import anyone
from roost.gateway.front.rendering import JSON_BODY, Headers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from roost.gateway.routes import Call, Routes

PACKAGE = "roost.gateway.web"
FILES = "/web/"
HOME: Mapping[str, str] = {"/": "index.html"}
"""The page of every gateway."""

COORDINATOR: Mapping[str, str] = {"/coordinator": "small.html", "/stats": "stats.html"}
"""The two pages of system 1: its chat, and its live figures."""

DOCS: Mapping[str, str] = {"/docs": "docs.html"}
"""The page that shows the document of all addresses."""

TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
POLICY = (
    b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"object-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Scripts, styles and pictures of this server alone, none of them inline, and no text that becomes
markup: what a model says stays text, also where a page has a mistake."""

GUARDS: Headers = [
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]
ABOUT = msgspec.json.encode(
    {"roost": __version__, "openai": "/v1", "health": "/health", "fleet": "/roost/v1/fleet"}
)


class WebFile(msgspec.Struct, frozen=True):
    """One file as it is sent; the tag changes with its content and with nothing else."""

    name: str
    type: bytes
    body: bytes
    tag: bytes


def read_web() -> dict[str, WebFile]:
    """Read every file of the pages, by name; a few hundred kilobytes from the disk."""
    folder = resources.files(PACKAGE)
    names = [one.name for one in folder.iterdir() if PurePosixPath(one.name).suffix in TYPES]
    return {name: _file(name, (folder / name).read_bytes()) for name in sorted(names)}


def _file(name: str, body: bytes) -> WebFile:
    tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode()
    return WebFile(name, TYPES[PurePosixPath(name).suffix], body, tag)


class Pages:
    """Endpoints for `files`; `pages` are the addresses of those that people type.

    `base_path` stands before every address of this gateway.
    """

    def __init__(
        self, files: Mapping[str, WebFile], pages: Iterable[tuple[str, str]], base_path: str = ""
    ) -> None:
        self._files = files
        self._pages = tuple(pages)
        self._base = base_path

    def add_to(self, routes: Routes) -> None:
        """Put these endpoints into the table; no key is asked for."""
        for path, name in self._pages:
            page = partial(self._page, path, self._files[name])
            routes.add("GET", path, page, anyone)
        for file in self._files.values():
            routes.add("GET", FILES + file.name, partial(_send, file), anyone)

    def _page(self, path: str, file: WebFile, call: Call) -> None:
        exchange = call.exchange
        if path == "/" and wants_json(exchange.fields.get(b"accept", b"")):
            exchange.reply(200, [*JSON_BODY, (b"vary", b"accept")], ABOUT)
        elif exchange.raw_path.decode("ascii") != self._base + path:
            # What a page names is found beside it: from `/stats/` that would be elsewhere.
            exchange.reply(307, [*GUARDS, (b"location", (self._base + path).encode())])
        else:
            _send(file, call)


def _send(file: WebFile, call: Call) -> None:
    """Answer with a file, or with nothing where the client has it as it is."""
    headers = [*GUARDS, (b"etag", file.tag), (b"vary", b"accept")]
    if known(call.exchange.fields.get(b"if-none-match", b""), file.tag):
        call.exchange.reply(304, headers)
    else:
        call.exchange.reply(200, [*headers, (b"content-type", file.type)], file.body)


def known(header: bytes, tag: bytes) -> bool:
    """Whether `If-None-Match` names this tag; proxies that compress make tags weak."""
    tags = (one.strip().removeprefix(b"W/") for one in header.split(b","))
    return any(one in {tag, b"*"} for one in tags)


def wants_json(accept: bytes) -> bool:
    """Whether a client asks for JSON by name and for no page: programs do, browsers do not."""
    kinds = {one.partition(b";")[0].strip().lower() for one in accept.split(b",")}
    return b"application/json" in kinds and not kinds & {b"text/html", b"text/*"}
