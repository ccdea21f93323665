"""A small model hub on loopback: real sockets, with the faults of real servers and networks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Page:
    """One address of the hub and how it misbehaves.

    `statuses` are answered first, one per request. `cuts` end the next bodies that roost asks for
    after so many bytes, by hanging up or, if the page `stalls`, by silence until roost hangs up.
    `location` redirects. `length` is announced in place of the true one.
    """

    body: bytes = b""
    etag: str | None = '"v1"'
    linked_etag: str | None = None
    location: str | None = None
    ranges: bool = True
    length: int | None = None
    total: int | None = None
    encoding: str | None = None
    kind: str = "application/octet-stream"
    stalls: bool = False
    statuses: list[int] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)


@dataclass
class Hub:
    """A running hub: its address, its pages by path, and every request it got."""

    url: str
    pages: dict[str, Page] = field(default_factory=dict)
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def ranges(self) -> list[str | None]:
        """The Range header of each request, in order."""
        return [headers.get("Range") for _, headers in self.seen]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        hub = self.server.hub
        hub.seen.append((self.path, dict(self.headers.items())))
        page = hub.pages.get(self.path)
        if page is None:
            self._answer(404, Page(etag=None), b"no such file")
        elif page.statuses:
            self._answer(page.statuses.pop(0), Page(etag=None), b"sorry")
        elif page.location is not None:
            self._answer(302, page, b"")
        else:
            self._send_file(page)

    def _send_file(self, page: Page) -> None:
        wanted = self.headers.get("Range")
        condition = self.headers.get("If-Range")
        if not wanted or not page.ranges or condition not in {None, page.etag}:
            self._answer(200, page, page.body)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last) + 1 if last else len(page.body), len(page.body))
        total = len(page.body) if page.total is None else page.total
        if start >= len(page.body):
            self._answer(416, page, b"", f"bytes */{total}")
            return
        span = f"bytes {start}-{end - 1}/{total}"
        self._answer(206, page, page.body[start:end], span)

    def _answer(self, status: int, page: Page, body: bytes, span: str | None = None) -> None:
        self.send_response(status)
        headers = {
            "ETag": page.etag,
            "x-linked-etag": page.linked_etag,
            "Location": page.location,
            "Content-Range": span,
            "Content-Encoding": page.encoding,
            "Content-Type": page.kind,
        }
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        length = len(body) if page.length is None else page.length
        if length >= 0:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        ours = self.headers.get("User-Agent") == "roost"
        cut = bool(page.cuts and body and ours)
        self.wfile.write(body[: page.cuts.pop(0)] if cut else body)
        if cut and page.stalls:
            self.connection.recv(1)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing; requests are kept in `seen`."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: Hub


@contextlib.contextmanager
def running_hub() -> Iterator[Hub]:
    """Serve until the block ends."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.hub
        finally:
            server.shutdown()
            thread.join()
