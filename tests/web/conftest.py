"""SHELL: a browser, and gateways with nodes for it to meet."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import msgspec
import pytest

from roost.store.credentials.keys import KeyStore
from roost.store.database import Database
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.store.gguf_writer import Typed, tiny
from tests.system.processes import Roost, get, wait
from tests.web.browser import Browser, Visitor, chromium

MODELS = ("tiny", "other")
QUICK = ("--link-ping-s", "0.2", "--link-suspect-s", "0.6", "--link-stale-s", "1.2")
LIMITS = ("--link-dead-s", "2.4")


def script(*pieces: str, **what: object) -> str:
    """Write a message that tells the scripted backend what to say and how."""
    told = {"pieces": pieces, **what} if pieces else what
    return "@script " + json.dumps(told)


class Fleet:
    """A gateway that asks for keys, and one node with two models of which one runs at a time."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._count = 0
        self.home = folder / "home"
        for number, name in enumerate(MODELS):
            source = folder / f"{name}.gguf"
            length = Typed("u32", 65_536 + number)
            source.write_bytes(tiny(**{"llama.context_length": length}))
            ModelStore(Home.open(self.home)).add_file(source, link=False)
        keys = KeyStore(Database.open(Home.open(self.home)))
        self.key = keys.add("ann").secret
        self.boss = keys.add("boss", "admin").secret
        self.gateway = self._start("gateway", "--port", "0", *QUICK, *LIMITS)
        self.url = self.gateway.url()
        token = self._start("token", "--json")
        assert token.ends() == 0
        self._token = token.output_path.with_suffix(".token")
        self._token.write_text(json.loads(token.output)["token"])
        self.node = self.add_node()

    def _start(self, *arguments: str) -> Roost:
        self._count += 1
        log = self._folder / f"roost-{self._count}.log"
        return self._stack.enter_context(Roost(log, *arguments, home=self.home))

    def add_node(self) -> Roost:
        """Start a node and wait until the gateway has it."""
        node = self._start(
            *("node", "--join", self.url, "--token-file", str(self._token), *QUICK, *LIMITS),
            *("--backend", "scripted", "--ctx", "32768", "--slots", "1"),
        )
        node.wait_for("link_up")
        wait(lambda: get(self.url, "/ready")[0] == 200, "a node is ready")
        return node

    def kill(self, node: Roost) -> None:
        """End a node as a lost machine ends: without a word."""
        os.kill(node.process.pid, signal.SIGKILL)
        node.process.wait()

    def ask(self, method: str, path: str, key: str, body: object = None) -> tuple[int, bytes]:
        """Ask something as somebody."""
        parts = urlsplit(self.url)
        with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=30)) as connection:
            raw = None if body is None else msgspec.json.encode(body)
            connection.request(method, path, raw, {"Authorization": f"Bearer {key}"})
            reply = connection.getresponse()
            return reply.status, reply.read()

    @contextmanager
    def asking(self, text: str) -> Iterator[str]:
        """Ask a model as the operator; gives the id once it runs, and waits for its end."""
        said = [{"role": "user", "content": text}]
        body = {"model": MODELS[0], "messages": said, "max_tokens": 4000}
        asking = ("POST", "/v1/chat/completions", self.boss, body)
        asked = threading.Thread(target=self.ask, args=asking)
        asked.start()
        try:
            wait(lambda: not self.idle(), "a slot is taken")
            wait(lambda: bool(self.running()), "it runs")
            yield self.running()[0]
        finally:
            asked.join(30)

    def running(self) -> list[str]:
        """List the ids of what holds a slot."""
        held = {"prefill", "streaming"}
        return [one["id"] for one in self.requests() if one["state"] in held]

    def requests(self) -> list[dict[str, str]]:
        """List what runs and what ended last."""
        status, body = self.ask("GET", "/roost/v1/observability", self.boss)
        assert status == 200
        return cast("list[dict[str, str]]", msgspec.json.decode(body)["data"]["requests"])

    def view(self) -> dict[str, list[dict[str, object]]]:
        """Read the fleet."""
        status, body = self.ask("GET", "/roost/v1/fleet", self.boss)
        assert status == 200
        return cast("dict[str, list[dict[str, object]]]", msgspec.json.decode(body))

    def alive(self) -> dict[str, object]:
        """Give the node that is alive; there is one."""
        (node,) = (one for one in self.view()["nodes"] if one["state"] == "alive")
        return node

    def idle(self) -> bool:
        """Whether every slot and every place is free."""
        node = self.alive()
        runtimes = cast("list[dict[str, Sequence[dict[str, bool]]]]", node["runtimes"])
        busy = any(slot["busy"] for runtime in runtimes for slot in runtime["slots"])
        return node["in_flight"] == 0 and not busy


Making = Callable[[], Fleet]


@pytest.fixture(scope="session")
def making(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Making]:
    """Make fleets that last until the end."""
    with ExitStack() as stack:
        yield lambda: Fleet(tmp_path_factory.mktemp("fleet"), stack)


@pytest.fixture(scope="session")
def fleet(making: Making) -> Fleet:
    """One that all tests share: whoever changes something puts it back."""
    return making()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    with chromium() as running:
        yield running


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    """Somebody who has never been here; at the end none of his pages has complained."""
    with browser.visitor() as made:
        yield made
        assert made.complaints() == []
