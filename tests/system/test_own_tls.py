"""Beyond this machine without a certificate: a gateway makes its own, and nodes know it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from roost.cli import main
from roost.store.credentials.certificate import own_certificate
from roost.store.home import Home
from tests.patience import PATIENCE_S
from tests.system.processes import BEYOND, Roost

Start = Callable[..., Roost]
Capture = pytest.CaptureFixture[str]


def told(capsys: Capture, *arguments: str) -> dict[str, str]:
    """Run a verb in this process and decode what it prints."""
    assert main.run([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


@pytest.mark.slow
def test_gateway_node_client_and_verbs_find_each_other_over_its_own_certificate(
    start: Start, home: Path, tmp_path: Path, capsys: Capture
) -> None:
    """The token came first; the gateway has its certificate, and whoever has another is refused."""
    key = told(capsys, "keys", "add", "me", "--role", "admin", "--home", str(home))["key"]
    made = told(capsys, "token", "--home", str(home))
    assert made["token"].endswith(made["fingerprint"])
    gateway = start("gateway", "--host", BEYOND, "--port", "0")
    url = gateway.url().replace(BEYOND, "127.0.0.1")
    assert url.startswith("https://")
    node = start("node", "--join", url, "--token", made["token"], "--backend", "scripted")
    gateway.wait_for("node_joined")
    # The log tells which token it was, and never the token.
    gateway.wait_for(rf'"token": "{made["id"]}", "event": "join_admitted"')
    assert made["token"].partition(".")[0] not in gateway.output
    elsewhere = own_certificate(Home.open(tmp_path / "elsewhere")).fingerprint
    secret = made["token"].partition(".")[0]
    stranger = start("node", "--join", url, "--token", f"{secret}.{elsewhere}")
    assert stranger.ends() == 2
    assert "another certificate than the one that the token names" in stranger.output
    # A verb beside the gateway knows it by its record, a client by its file.
    for where in ((), ("--url", url)):
        fleet = told(capsys, "fleet", "--home", str(home), "--api-key", key, *where)
        assert len(fleet["nodes"]) == 1
    file = told(capsys, "certificate", "--home", str(home))["file"]
    assert status(url, key, file) == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        status(url, key, str(tmp_path / "elsewhere" / "certificate.pem"))
    assert node.process.poll() is None


def status(url: str, key: str, ca_file: str) -> int:
    """Ask for the models as any client does that has been given the file."""
    context, parts = ssl.create_default_context(cafile=ca_file), urlsplit(url)
    made = HTTPSConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S, context=context)
    with closing(made) as connection:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status
