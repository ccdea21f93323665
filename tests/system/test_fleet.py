"""A gateway and two nodes as three processes over one ROOST_HOME: joining, sharing, dying."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import cast

import msgspec
import psutil
import pytest
from openai import APIError, OpenAI

from roost.cli import main
from tests.children import seen
from tests.patience import PATIENCE_S
from tests.system.conftest import MODEL, Start
from tests.system.processes import ENDS_S, Roost, fetch, gone, wait

Client = Callable[[str], OpenAI]
QUICK = (
    *("--link-ping-s", "0.2", "--link-suspect-s", "0.6"),
    *("--link-stale-s", "1.2", "--link-dead-s", "2.4"),
)
EVERYWHERE = ("--placement-replicas", "0")


def script(**what: object) -> str:
    """Write a prompt that tells the scripted backend what to do."""
    return "@script " + json.dumps(what)


def fleet(url: str) -> dict[str, str]:
    """Read every node's state from the gateway."""
    nodes = msgspec.json.decode(fetch(url, "/roost/v1/fleet"))["nodes"]
    return {node["id"]: node["state"] for node in nodes}


def statistics(url: str) -> dict[str, object]:
    """Read the coordinator's counts from the gateway."""
    body = msgspec.json.decode(fetch(url, "/roost/v1/fleet"))
    return cast("dict[str, object]", body["statistics"])


class Trio:
    """A gateway and two nodes, whose links have these times.

    Quick ones are for who is about them: on a busy machine a node is suspect with them for a
    moment, and is passed over, though nothing is wrong with it.
    """

    def __init__(self, start: Start, home: Path, times: tuple[str, ...] = ()) -> None:
        self.start = start
        self.times = times
        self.gateway = start("gateway", "--port", "0", *times, *EVERYWHERE)
        self.url = self.gateway.url()
        # The verb runs here: a process of its own for every test would show nothing more.
        with redirect_stdout(StringIO()) as told:
            assert main.run(["token", "--json", "--home", str(home)]) == 0
        self.token = json.loads(told.getvalue())["token"]
        self.token_file = home.with_name("fleet.token")
        self.token_file.write_text(f"{self.token}\n")
        self.nodes: dict[str, Roost] = {}
        for _ in range(2):
            self.add_node()

    def add_node(self) -> Roost:
        """Start one more node and wait until it has joined."""
        node = self.start(
            *("node", "--join", self.url, "--token-file", str(self.token_file)),
            *("--backend", "scripted"),
            *("--ctx", "32768", "--slots", "2", *self.times),
        )
        node.wait_for("link_up")
        wait(lambda: len(self.alive()) > len(self.nodes), "the node is listed")
        (name,) = set(fleet(self.url)) - set(self.nodes)
        self.nodes[name] = node
        return node

    def alive(self) -> set[str]:
        """Name the nodes that are alive."""
        return {node for node, state in fleet(self.url).items() if state == "alive"}


@pytest.fixture
def trio(start: Start, home: Path) -> Trio:
    """A gateway with two nodes that have joined."""
    return Trio(start, home)


def test_two_nodes_of_one_home_differ_and_share_the_load(trio: Trio, openai: Client) -> None:
    """Several processes may share a ROOST_HOME; four requests at once use both machines."""
    assert len(trio.nodes) == 2
    client = openai(trio.url)
    long = script(pieces=["ok "] * 900, delay_ms=50)

    # None of them ends before all have begun.
    with ThreadPoolExecutor(4) as pool:
        asked = pool.map(
            lambda number: client.chat.completions.with_raw_response.create(
                model=MODEL,
                messages=[
                    {"role": "user", "content": f"{number}"},
                    {"role": "user", "content": long},
                ],
                stream=True,
            ),
            range(4),
        )
        begun = list(asked)
    assert Counter(one.headers["x-roost-node"] for one in begun) == dict.fromkeys(trio.nodes, 2)
    for one in begun:
        one.parse().close()


def test_a_second_turn_is_warm_on_the_node_that_served_the_first(
    trio: Trio, openai: Client
) -> None:
    """A plain client that resends its history finds its KV, and the reply says so."""
    client = openai(trio.url)
    for number in range(4):
        history = [{"role": "user", "content": f"hello number {number}"}]
        first = client.with_raw_response.chat.completions.create(
            model=MODEL,
            messages=history,  # type: ignore[arg-type]
        )
        answer = first.parse().choices[0].message.content
        history += [
            {"role": "assistant", "content": str(answer)},
            {"role": "user", "content": "and again"},
        ]
        second = client.with_raw_response.chat.completions.create(
            model=MODEL,
            messages=history,  # type: ignore[arg-type]
        )
        assert second.headers["x-roost-placement"] == "warm"
        assert second.headers["x-roost-node"] == first.headers["x-roost-node"]
        assert int(second.headers["x-roost-cached-tokens"]) > 0
        usage = second.parse().usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        assert (usage.prompt_tokens_details.cached_tokens or 0) > 0


def test_a_node_killed_in_mid_stream_is_an_error_and_the_other_serves(
    trio: Trio, openai: Client
) -> None:
    """No clean end for a cut answer; the next request is served; the node is soon gone."""
    client = openai(trio.url)
    stream = client.chat.completions.with_raw_response.create(
        model=MODEL,
        messages=[{"role": "user", "content": script(pieces=["x "] * 500, delay_ms=20)}],
        stream=True,
    )
    victim = stream.headers["x-roost-node"]
    chunks = iter(stream.parse())
    next(chunks)
    descendants = trio.nodes[victim].descendants()
    trio.nodes[victim].signal(signal.SIGKILL)
    with pytest.raises(APIError) as cut:
        list(chunks)
    assert cut.value.code == "node_lost"
    reply = client.with_raw_response.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "still there?"}]
    )
    assert reply.headers["x-roost-node"] != victim
    wait(lambda: trio.alive() == set(trio.nodes) - {victim}, "the dead node is not alive")
    wait(lambda: statistics(trio.url)["leases"] == 0, "nothing is leased")
    assert gone(descendants)


def test_a_node_killed_before_the_first_token_is_not_noticed(trio: Trio, openai: Client) -> None:
    """The request is answered by the other node."""
    client = openai(trio.url)
    slow = script(pieces=["late"], delay_ms=1500)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(
            lambda: client.with_raw_response.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": slow}]
            )
        )
        found: list[str] = []

        def runs() -> bool:
            found[:] = busy(trio.url)
            return bool(found)

        wait(runs, "it runs somewhere")
        (victim,) = found
        trio.nodes[victim].signal(signal.SIGKILL)
        reply = asked.result(PATIENCE_S)
    assert reply.headers["x-roost-node"] != victim
    assert reply.parse().choices[0].message.content == "late"


def busy(url: str) -> list[str]:
    """Name the nodes that have something to do."""
    in_flight = cast("dict[str, int]", statistics(url)["in_flight"])
    return [node for node, count in in_flight.items() if count]


def test_a_stopped_node_gets_no_work_and_comes_back(
    start: Start, home: Path, openai: Client
) -> None:
    """A node that hangs is passed over within the time of suspicion, and rejoins by itself."""
    trio = Trio(start, home, QUICK)
    client = openai(trio.url)
    victim, other = sorted(trio.nodes)
    pid = trio.nodes[victim].process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        wait(lambda: fleet(trio.url)[victim] != "alive", "it is suspected")
        for number in range(4):
            reply = client.with_raw_response.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": f"number {number}"}]
            )
            assert reply.headers["x-roost-node"] == other
    finally:
        os.kill(pid, signal.SIGCONT)
    wait(lambda: trio.alive() == {victim, other}, "it is back")
    wait(lambda: statistics(trio.url)["leases"] == 0, "nothing is leased")


def test_a_restarted_gateway_finds_its_nodes_again(trio: Trio, openai: Client, home: Path) -> None:
    """Nodes dial again by themselves, and what it asks for now is newer than all before."""
    port = trio.url.rsplit(":", 1)[1]
    trio.gateway.signal(signal.SIGKILL)
    trio.gateway.ends()
    again = trio.start("gateway", "--port", port, *EVERYWHERE)
    assert again.url() == trio.url
    wait(lambda: trio.alive() == set(trio.nodes), "both have joined again")
    reply = openai(trio.url).chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hello"}]
    )
    assert reply.choices[0].message.content == "hello"
    assert json.loads((home / "gateway.json").read_text("utf-8"))["generation"] == 2


def test_a_token_in_a_file_is_in_no_list_of_processes(start: Start, tmp_path: Path) -> None:
    """Neither the node nor anything that it starts has it on its command line."""
    file = tmp_path / "token"
    file.write_text("rt-very-secret\n")
    node = start("node", "--join", "http://127.0.0.1:1", "--token-file", str(file))
    node.wait_for("link_down")
    processes = [psutil.Process(node.process.pid), *node.descendants()]
    lines = seen(processes, lambda one: " ".join(one.cmdline()))
    assert "roost node" in lines[0]
    assert not any("secret" in line for line in lines)
    assert "secret" not in node.output


def test_a_wrong_token_ends_the_node_with_a_reason(trio: Trio, start: Start) -> None:
    """There is no point in dialling again with it."""
    node = start("node", "--join", trio.url, "--token", "rt-wrong", "--backend", "scripted")
    assert node.ends() == 2
    assert "token" in node.output
    assert "Traceback" not in node.output


def test_a_drained_node_finishes_and_exits_with_0(trio: Trio, openai: Client) -> None:
    """TERM on a node: its running answer completes, the fleet goes on with the other."""
    client = openai(trio.url)
    stream = client.chat.completions.with_raw_response.create(
        model=MODEL,
        messages=[{"role": "user", "content": script(pieces=["tick "] * 20, delay_ms=40)}],
        stream=True,
    )
    node = trio.nodes[stream.headers["x-roost-node"]]
    chunks = iter(stream.parse())
    next(chunks)
    node.signal(signal.SIGTERM)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.count("tick") == 20
    assert node.ends(ENDS_S) == 0
    reply = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hello"}]
    )
    assert reply.choices[0].message.content == "hello"


def test_the_fleet_is_shown_to_people_and_scripts(trio: Trio, start: Start) -> None:
    """`roost fleet` finds the gateway that runs here, and says what joined it."""
    shown = start("fleet")
    assert shown.ends() == 0
    lines = shown.output.splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(trio.nodes)
    # A machine that stands still for some seconds makes a node suspect for a moment.
    assert all(line.split()[2] in {"alive", "suspect"} and MODEL in line for line in lines)
    scripted = start("fleet", "--json", "--url", trio.url)
    assert scripted.ends() == 0
    assert len(json.loads(scripted.output)["nodes"]) == 2
    nowhere = start("fleet", "--url", "http://127.0.0.1:9")
    assert nowhere.ends() == 1
    assert "Traceback" not in nowhere.output


def test_a_gateway_that_stops_with_nodes_joined_says_nothing_odd(trio: Trio) -> None:
    """No traceback, exit code 0; the nodes go on looking for it."""
    trio.gateway.signal(signal.SIGTERM)
    assert trio.gateway.ends() == 0
    assert "Traceback" not in trio.gateway.output
    for node in trio.nodes.values():
        node.wait_for("link_down")
        assert "Traceback" not in node.output


def test_a_copied_home_is_noticed_and_does_not_flap(trio: Trio, tmp_path: Path, home: Path) -> None:
    """Of two processes with one identity the newer serves and the other ends with the reason."""
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    arguments = ("node", "--join", trio.url, "--token", trio.token, "--backend", "scripted")
    with Roost(tmp_path / "copy.log", *arguments, home=copy) as twin:
        twin.wait_for("link_up")
        trio.gateway.wait_for("node_clash")
        wait(lambda: any(n.process.poll() is not None for n in trio.nodes.values()), "one ends")
        (ended,) = [node for node in trio.nodes.values() if node.process.poll() is not None]
        assert "copy" in ended.output
        assert "Traceback" not in ended.output
        wait(lambda: len(trio.alive()) == 2, "two nodes are alive")
        assert twin.process.poll() is None


def test_operators_drain_nodes_and_ask_why(trio: Trio, start: Start, openai: Client) -> None:
    """`roost drain`, `undrain` and `why`, as a person types them."""
    one, other = sorted(trio.nodes)
    drained = start("drain", one)
    assert drained.ends() == 0
    assert "draining" in drained.output
    reply = openai(trio.url).chat.completions.with_raw_response.create(
        model=MODEL, messages=[{"role": "user", "content": "where?"}]
    )
    assert reply.headers["x-roost-node"] == other
    why = start("why", reply.headers["x-roost-request-id"])
    assert why.ends() == 0
    assert other in why.output
    assert "complete" in why.output
    assert start("undrain", one).ends() == 0
    assert start("why", "no-such-request").ends() == 2
    assert start("drain", "no-such-node").ends() == 2
