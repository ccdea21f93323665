"""Conversations of a real model on two nodes: drained, killed, restarted, and told the truth."""

from __future__ import annotations

import http.client
import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from roost.bench.drills.talking import Facts
from roost.bench.drills.told import Told, lie
from roost.cli.verbs.fleet import held
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.patience import PATIENCE_S
from tests.smollm2 import smollm2_path
from tests.system.conftest import Start
from tests.system.processes import Roost, fetch, wait

MODEL = "smollm2-135m-instruct"
TALKS = tuple(f"talk {n}" for n in range(12))
FACTS = "This is {}, part {}." + 3 * " My cat is called Tom, my dog Rex, and I live by the sea."
"""Long enough that a node which needs its slot puts it aside."""
MOST = 4
"""Turns in a row under load: longer conversations show nothing more."""


class Clients:
    """Talks with a gateway, and holds what it is told against what it was told before."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.before: dict[str, Told] = {}
        self._turns: dict[str, int] = {}

    def say(self, talk: str, most: int = 4) -> Told:
        """Say the next thing in a conversation; every word about how it was served is checked."""
        turn = self.ask(talk, most)
        assert turn.end == "complete", turn
        assert not lie(self.before.get(talk), turn), (turn, self.before.get(talk))
        self.before[talk] = turn
        return turn

    def say_all(self, talks: Sequence[str]) -> list[Told]:
        """Say the next thing in each of these, four at a time."""
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(self.say, talks))

    def ask(self, talk: str, most: int, heard: Callable[[], object] = bool) -> Told:
        """Send a turn and read the reply to its end, however it ends; `heard` at its first word."""
        number = self._turns.get(talk, 0)
        self._turns[talk] = number + 1
        asked = {"conversation_id": talk, "prompt": FACTS.format(talk, number), "model": MODEL}
        body = json.dumps(asked | {"max_tokens": most, "temperature": 0})
        netloc = urlsplit(self.url).netloc
        with closing(http.client.HTTPConnection(netloc, timeout=PATIENCE_S)) as connection:
            connection.request("POST", "/coordinator/infer", body)
            reply = connection.getresponse()
            headers = {name.lower(): value for name, value in reply.getheaders()}
            events = list(_events(reply, heard))
        path = f"/roost/v1/requests/{headers['x-roost-request-id']}"
        attempt = msgspec.json.decode(fetch(self.url, path))["attempts"][-1]
        # What was not known yet when the headers left is in the last event.
        told = msgspec.convert(events[-1].get("roost", {}), Facts)
        return Told(
            "complete" if events[-1].get("reason") in {"stop", "length"} else "error",
            *(reply.status, told.node, told.placement, told.cached_tokens, told.lost_tokens),
            attempt["prompt_tokens"],
            sum("token" in event for event in events),
            str(events[-1]),
        )


def _events(
    reply: http.client.HTTPResponse, heard: Callable[[], object]
) -> Iterator[dict[str, object]]:
    """Read events up to the end, or to where the connection breaks."""
    first = True
    with suppress(http.client.IncompleteRead):
        for line in reply:
            assert reply.status == 200, line
            if not line.startswith(b"data: "):
                continue
            yield json.loads(line[6:])
            if first:
                heard()
            first = False


class Fleet:
    """A gateway and two nodes with a real model over one ROOST_HOME."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.gateway = self._gateway("0")
        self.url = self.gateway.url()
        token = start("token", "--json")
        assert token.ends() == 0
        self.token = json.loads(token.output)["token"]
        self.nodes: dict[str, Roost] = {}
        self.homes: dict[str, str] = {}
        for home in ("one", "two"):
            self.homes[self.add_node(home)] = home

    def _gateway(self, port: str) -> Roost:
        return self.start("gateway", "--port", port, "--placement-replicas", "0")

    def restart_gateway(self) -> None:
        """Kill -9 the gateway, start it again where it was, and wait for its nodes."""
        self.gateway.signal(signal.SIGKILL)
        self.gateway.ends()
        self.gateway = self._gateway(str(urlsplit(self.url).port))
        assert self.gateway.url() == self.url
        wait(lambda: self.alive() == set(self.nodes), "its nodes are back")

    def restart(self, name: str) -> None:
        """Start a node that has ended, under its id."""
        assert self.add_node(self.homes[name]) == name

    def add_node(self, home: str) -> str:
        """Start the node of this home."""
        before = self.alive()
        node = self.start(
            *("node", "--join", self.url, "--token", self.token, "--slots", "4"),
            *("--ctx", "1024", "--threads", "1", "--runtime-stall-floor-s", "60"),
            home=home,
        )
        wait(lambda: len(self.alive() - before) == 1, "the node is listed", 30)
        (name,) = self.alive() - before
        self.nodes[name] = node
        return name

    def kill(self, name: str) -> None:
        """Kill -9 a node."""
        self.nodes[name].signal(signal.SIGKILL)
        self.nodes.pop(name).ends()
        wait(lambda: name not in self.alive(), "it is missed")

    def view(self, name: str) -> dict[str, object]:
        """How the gateway sees a node."""
        nodes = msgspec.json.decode(fetch(self.url, "/roost/v1/fleet"))["nodes"]
        return next(node for node in nodes if node["id"] == name)

    def alive(self) -> set[str]:
        """Name the nodes that are alive and have said what they have."""
        nodes = msgspec.json.decode(fetch(self.url, "/roost/v1/fleet"))["nodes"]
        return {n["id"] for n in nodes if n["state"] == "alive" and n["models"]}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `roost` over homes, of which each node has one of its own, with the real model."""
    for node in ("one", "two"):
        ModelStore(Home.open(tmp_path / node)).add_file(smollm2_path(), link=True)
    with ExitStack() as running:
        logs = iter(range(99))

        def run(*arguments: str, home: str = "gateway") -> Roost:
            log = tmp_path / f"roost-{next(logs)}.log"
            return running.enter_context(Roost(log, *arguments, home=tmp_path / home))

        yield run


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.long
@pytest.mark.timeout(240)
def test_twelve_conversations_outlive_nodes_and_their_gateway(start: Start) -> None:
    """A drain under load, kill -9 between turns and in decode, a restart: nobody is lied to."""
    fleet = Fleet(start)
    clients = Clients(fleet.url)
    homes = {turn.node for turn in clients.say_all(TALKS)}
    assert homes == set(fleet.nodes), "both have some"
    left, other = sorted(homes)

    idle = [talk for talk in TALKS[4:] if clients.before[talk].node == left]
    stop = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        # Whoever talks on meanwhile meets no error, and is told where it went.
        load = [pool.submit(_talk_on, clients, TALKS[n : n + 2], stop) for n in (0, 2)]
        drained = start("drain", left, "--wait", "60")
        code = drained.ends(60)
        stop.set()
        assert sum(one.result() for one in load) > 0
    assert code == 0, drained.output
    assert (fleet.view(left)["in_flight"], held(fleet.view(left))) == (0, 0)
    # It may be stopped, and comes back under its id while the others talk on.
    fleet.nodes[left].signal(signal.SIGTERM)
    assert fleet.nodes.pop(left).ends() == 0
    again = clients.say_all(TALKS)
    assert {turn.node for turn in again} == {other}
    moved = [clients.before[talk] for talk in idle]
    assert {(turn.placement, turn.lost) for turn in moved} <= {("moved(home_drained)", 0)}
    assert all(2 * turn.cached > turn.prompt for turn in moved)

    fleet.restart(left)
    assert start("undrain", left).ends() == 0
    fleet.kill(other)
    few = TALKS[:3]
    assert {(turn.node, turn.placement) for turn in clients.say_all(few)} == {(left, "lost")}

    fleet.restart_gateway()
    assert {(turn.node, turn.placement) for turn in clients.say_all(few)} == {(left, "warm")}

    cut = clients.ask(few[0], 400, lambda: fleet.nodes[left].signal(signal.SIGKILL))
    assert cut.end == "error"
    clients.before[few[0]] = cut
    fleet.nodes.pop(left).ends()
    fleet.restart(left)
    assert {(turn.node, turn.placement) for turn in clients.say_all(few)} == {(left, "lost")}


def _talk_on(clients: Clients, talks: Sequence[str], stop: threading.Event) -> int:
    """Talk in these by turns until told to stop; how many turns that were."""
    count = 0
    while not stop.is_set() and count < MOST:
        clients.say(talks[count % len(talks)])
        count += 1
    return count
