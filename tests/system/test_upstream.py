"""`roost gateway --upstream` in front of real `roost serve` processes, one of which is killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from openai import OpenAI

from tests.patience import PATIENCE_S
from tests.system.conftest import MODEL, Start
from tests.system.processes import Roost, fetch, gone, wait

Client = Callable[[str], OpenAI]
SERVE = ("serve", "--backend", "scripted", "--ctx", "32768")
CHAT = "/v1/chat/completions"


def states(gateway: str) -> dict[str, str]:
    """Say how each server stands, as the gateway sees it."""
    nodes = msgspec.json.decode(fetch(gateway, "/roost/v1/fleet"))["nodes"]
    return {node["id"]: node["state"] for node in nodes}


def serves(gateway: str, server: str) -> bool:
    """Whether the gateway knows that this server has the model: it asks for that separately."""
    nodes = msgspec.json.decode(fetch(gateway, "/roost/v1/fleet"))["nodes"]
    return any(node["id"] == server and MODEL in str(node["models"]) for node in nodes)


def open_stream(connection: HTTPConnection) -> HTTPResponse:
    """Begin an answer that would take most of a minute, and return it with its head read."""
    prompt = "@script " + json.dumps({"pieces": ["tick "] * 900, "delay_ms": 50})
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": prompt}]}
    connection.request(
        "POST", CHAT, msgspec.json.encode(body), {"Content-Type": "application/json"}
    )
    reply = connection.getresponse()
    assert reply.status == 200
    return reply


def events(reply: HTTPResponse) -> list[str]:
    """Read the data of all events, up to wherever the answer ends."""
    lines = []
    try:
        while line := reply.readline():
            lines.append(line.decode().rstrip())
    except OSError:
        lines.append("")
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


def test_a_killed_server_is_one_error_event_and_the_other_goes_on(
    start: Start, openai: Client
) -> None:
    """Kill -9 in mid-stream: the client is told, the fleet serves on, and a restart rejoins."""
    servers = {f"upstream-{n}": start(*SERVE, "--port", "0") for n in (1, 2)}
    urls = {name: server.url() for name, server in servers.items()}
    flags = [part for url in urls.values() for part in ("--upstream", url)]
    gateway = start("gateway", "--port", "0", "--upstream-probe-s", "0.2", *flags).url()
    wait(lambda: set(states(gateway).values()) == {"alive"}, "both servers are known")

    with closing(HTTPConnection(urlsplit(gateway).netloc, timeout=PATIENCE_S)) as connection:
        reply = open_stream(connection)
        victim = str(reply.headers["x-roost-node"])
        assert reply.readline().startswith(b"data: ")
        _kill(servers[victim])
        data = events(reply)
    failed = [msgspec.json.decode(event)["error"] for event in data if '"error"' in event]
    assert [error["code"] for error in failed] == ["upstream_error"]
    assert '"error"' in data[-1]
    assert "[DONE]" not in data

    client = openai(gateway)
    (other,) = urls.keys() - {victim}
    for _ in range(3):
        answered = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=[{"role": "user", "content": "still there?"}]
        )
        assert answered.headers["x-roost-node"] == other
        assert answered.parse().choices[0].message.content == "still there?"
    wait(lambda: states(gateway) == {victim: "dead", other: "alive"}, "one of them is dead")

    port = str(urlsplit(urls[victim]).port)
    start(*SERVE, "--port", port).url()
    wait(lambda: set(states(gateway).values()) == {"alive"}, "the restarted server is back")
    wait(lambda: serves(gateway, victim), "it is known what it serves")
    _kill(servers[other])
    wait(lambda: states(gateway)[other] == "dead", "the other one is gone")
    again = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=[{"role": "user", "content": "and you?"}]
    )
    assert again.headers["x-roost-node"] == victim


def test_the_list_is_read_again_on_hup(start: Start, openai: Client, tmp_path: Path) -> None:
    """Servers come and go by a line of the settings file; a wrong line changes nothing."""
    one, two = (start(*SERVE, "--port", "0").url() for _ in range(2))
    file = tmp_path / "front.toml"
    _write(file, f"a={one}")
    gateway = start("gateway", "--port", "0", "--config", str(file))
    url = gateway.url()
    wait(lambda: states(url) == {"a": "alive"}, "the first server is known")
    _write(file, f"a={one}", f"b={two}")
    gateway.signal(signal.SIGHUP)
    wait(lambda: states(url) == {"a": "alive", "b": "alive"}, "the second one is used")
    _write(file, f"b={two}")
    gateway.signal(signal.SIGHUP)
    wait(lambda: states(url) == {"b": "alive"}, "the first one is forgotten")
    _write(file, "nonsense")
    gateway.signal(signal.SIGHUP)
    gateway.wait_for("reload_refused")
    answered = openai(url).chat.completions.with_raw_response.create(
        model=MODEL, messages=[{"role": "user", "content": "who?"}]
    )
    assert answered.headers["x-roost-node"] == "b"
    _write(file, f"b={two}", head=f'aliases = ["gpt-4o={MODEL}"]\n')
    gateway.signal(signal.SIGHUP)
    wait(lambda: "gpt-4o" in {one.id for one in openai(url).models.list()}, "the name is known")
    named = openai(url).chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": "who?"}]
    )
    assert named.model == MODEL


def _write(file: Path, *urls: str, head: str = "") -> None:
    file.write_text(f"{head}[upstream]\nurls = {json.dumps(urls)}\nprobe_s = 0.2\n", "utf-8")


def _kill(server: Roost) -> None:
    children = server.descendants()
    server.signal(signal.SIGKILL)
    assert server.ends() == -signal.SIGKILL
    assert gone(children)
