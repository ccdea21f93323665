"""`roost health`: where it asks, whom it believes, and its exit codes."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from roost.cli import main
from roost.cli.parts.stores import open_to_listen
from roost.cli.parts.worker_door import at_door
from roost.cli.parts.worker_where import read_where
from roost.cli.verbs.health import _worker
from roost.config.load import Machine, load
from roost.store.credentials.certificate import own_certificate
from roost.store.home import Home


class Worker(BaseHTTPRequestHandler):
    """A worker API that is well, for whoever shows its key."""

    def do_GET(self) -> None:
        """Answer."""
        well = (self.path, self.headers["Authorization"]) == ("/worker/health", "Bearer k")
        body = b'{"status": "healthy"}' if well else b"{}"
        known = self.path.startswith(("/worker/", "/health"))
        self.send_response(200 if well else 503 if known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Listener(HTTPServer):
    """One whose clients may leave in a handshake."""

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def listening(certificate: Path | None) -> Iterator[int]:
    """Serve on loopback, with this certificate or in the clear; yields the port."""
    server = Listener(("127.0.0.1", 0), Worker)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def asked(home: Home, *words: str) -> int:
    """Ask, with a home of one's own."""
    return main.run(["health", "--home", str(home.root), "--api-key", "k", *words])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty ROOST_HOME."""
    return Home.open(tmp_path / "home")


def test_a_worker_api_beyond_this_machine_is_asked_as_it_listens(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With TLS, by the home's own certificate, and by loopback where it is on every address."""
    assert asked(home, "--worker", "--worker-api", "0.0.0.0:1") == 1
    assert "Nobody has listened at https://127.0.0.1:1" in capsys.readouterr().err
    own = own_certificate(home).path
    other = own_certificate(Home.open(tmp_path / "other")).path
    with listening(own) as port:
        assert asked(home, "--worker", "--worker-api", f"0.0.0.0:{port}") == 0
        assert capsys.readouterr().out == "healthy\n"
        given = ("--tls-cert", str(own), "--tls-key", str(own))
        assert asked(home, "--worker", "--worker-api", f"127.0.0.1:{port}", *given) == 0
    with listening(other) as port:
        assert asked(home, "--worker", "--worker-api", f"0.0.0.0:{port}") == 1
        told = capsys.readouterr().err
        assert "another certificate" in told
        assert "restart the server or send it HUP" in told
    assert asked(home, "--worker", "--worker-api", f"0.0.0.0:{port}") == 1


def test_a_worker_api_in_the_clear_is_asked_in_the_clear(home: Home) -> None:
    """On this machine, and where somebody has said so."""
    with listening(None) as port:
        assert asked(home, "--worker", "--worker-api", f"127.0.0.1:{port}") == 0
        where = ("--worker", "--worker-api", f"0.0.0.0:{port}")
        assert asked(home, *where) == 1
        assert asked(home, *where, "--insecure-http") == 0
        assert asked(home, "--worker", "--worker-api", f"127.0.0.1:{port}", "--api-key", "x") == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 1),
        (("--ready",), 1),
        (("--worker",), 2),
        (("--worker", "--worker-api", "x"), 2),
        (("--url", "nowhere"), 2),
        (
            ("--worker", "--worker-api", "127.0.0.1:1", "--tls-cert", "/no", "--tls-key", "/no"),
            2,
        ),
    ],
)
def test_nobody_there_is_an_answer_and_a_wrong_question_is_none(
    words: tuple[str, ...], code: int, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 where no gateway runs, 2 for words that never find one; a line either way."""
    assert asked(home, *words) == code
    assert capsys.readouterr().err.startswith("roost health: ")


def test_a_path_that_nobody_has_is_a_wrong_question(home: Home) -> None:
    """Somebody is there: to start that again would not help."""
    with listening(None) as port:
        assert asked(home, "--url", f"http://127.0.0.1:{port}") == 1
        assert asked(home, "--url", f"http://127.0.0.1:{port}/elsewhere") == 2


@pytest.mark.parametrize(
    ("host", "worker", "given", "tls"),
    [
        ("0.0.0.0", "127.0.0.1:1", False, False),
        ("0.0.0.0", "0.0.0.0:1", False, True),
        ("127.0.0.1", "0.0.0.0:1", False, True),
        ("0.0.0.0", "127.0.0.1:1", True, True),
    ],
)
def test_a_worker_api_beside_a_gateway_is_asked_as_it_listens(
    home: Home, host: str, worker: str, *, given: bool, tls: bool
) -> None:
    """The home's own certificate counts where an address needs one; one that was named, always."""
    key = '{"name": "me", "key": "sk-of-some-length-that-will-do"}'
    flags: dict[str, object] = {"host": host, "worker_api": worker, "keys": (key,)}
    if given:
        own = str(own_certificate(home).path)
        flags |= {"tls_cert": own, "tls_key": own}
    said = load({}, flags, "", Machine(8, str(home.root))).settings
    settings, stores = open_to_listen(said)
    try:
        where = read_where(worker)
        door = at_door(settings._replace(host=where.host, port=where.port), stores)
    finally:
        stores.close()
    assert (bool(door.tls_cert), bool(door.tls_key)) == (tls, tls)
    asks = _worker(said)
    assert (asks.url, bool(asks.pin)) == (f"http{'s' * tls}://127.0.0.1:1", tls)
