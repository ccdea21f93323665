"""SHELL: a gateway of somebody else's before servers that roost starts, and the faults done to it.

The servers are `roost serve` with a scripted model, whatever stands before them: what differs is
the gateway alone.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from subprocess import TimeoutExpired

from roost.bench.chaos.load import Load
from roost.bench.chaos.schedule import Fault, Strike
from roost.bench.chaos.seen import Struck
from roost.bench.chaos.strikes import (
    BEGUN_S,
    GONE_S,
    HOUSE,
    LONG_PIECES,
    SEEN_S,
    SLOW,
    STUCK,
    Figures,
    open_clients,
    program_in,
)
from roost.bench.drills.asking import Chat, ask
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.slow_client import rest_of, stuck_reader
from roost.bench.drills.stage import Running, Stage
from roost.bench.peers.entries import PEERS, Launch, Peer, Site
from roost.bench.peers.starting import prepared, program_of
from roost.bench.processes import free_port, python

START_S, WORKS_S, POLL_S = 180.0, 20.0, 0.1
SECOND_S = 60.0
NOTICE_S, HANGS_S = 3.0, 3.0
"""As long as a node of roost may be silent in such a run until it is dead; and longer."""
_WORK = re.compile(r"^roost_dispatched_total (\S+)$", re.MULTILINE)


def _roost(site: Site) -> Launch:
    words = ("-u", "-m", "roost", "gateway", "--port", str(site.port), "--home", site.folder)
    upstream = tuple(word for url in site.urls for word in ("--upstream", url))
    limits = ("--stream-write-deadline-s", "1.0", "--stream-send-buffer-bytes", "8192")
    return Launch((*words, *upstream, "--upstream-probe-s", "0.5", *limits))


FRONTS: dict[str, Peer] = {
    "roost-upstream": Peer(python(), "probes 0.5 s, write deadline 1 s", _roost),
    **PEERS,
}
"""What can stand before the servers: roost's own stateless gateway, and every peer."""


class Front:
    """One gateway before servers; `fleet` is what a load asks, and who serves behind it."""

    def __init__(self, stage: Stage, peer: Peer, program: str, servers: list[Running]) -> None:
        self._stage = stage
        self._peer = peer
        self._program = program
        self._servers = servers
        self._port = free_port()
        self._started = 0
        self.fleet = Fleet(stage, "servers", self.start())
        self.fleet.members = {f"server-{n}": server for n, server in enumerate(servers, 1)}

    def start(self) -> Running:
        """Start the gateway, once more if need be, in a folder of its own and on the same port."""
        folder = self._stage.path / f"front-{self._started}"
        self._started += 1
        folder.mkdir()
        folder.chmod(0o755)
        self._stage.path.chmod(0o755)
        ports = tuple(server.port for server in self._servers)
        site = Site(self._port, ports, free_port(), str(folder), self._stage.model)
        return self._stage.foreign(prepared(self._peer, self._program, site), self._port)

    async def answers(self) -> bool:
        """Wait until a chat comes back whole; False if none does for too long."""
        chat = Chat(self._port, self._stage.model, "hello", max_tokens=4, on_loss="", timeout_s=5.0)
        deadline = asyncio.get_running_loop().time() + START_S
        while (await ask(chat)).end != "complete":
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(POLL_S)
        return True


async def begun(stage: Stage, name: str, members: int, environment: Path | None) -> Front | None:
    """Start servers and a gateway before them; None where it is not installed or never answers."""
    peer = FRONTS[name]
    program = program_of(peer.program, environment)
    if program is None:
        return None
    servers = stage.serve_all("server", members, ("--slots", "2"))
    for server in servers:
        await server.serves()
    front = Front(stage, peer, program, servers)
    return front if await front.answers() else None


class FrontStriker:
    """Strikes a gateway and its servers under one load; what does not apply is left out."""

    def __init__(self, front: Front, load: Load) -> None:
        self._front = front
        self._fleet = front.fleet
        self._load = load
        self._names = sorted(front.fleet.members)
        self._acts: dict[Fault, Callable[[Strike, str], Awaitable[Figures]]] = {
            "kill-node": self._kill_server,
            "stop-node": self._stop_server,
            "restart-gateway": self._restart,
            "slow-client": self._slow_client,
            "stuck-reader": self._stuck_reader,
            "port-taken": self._port_taken,
        }

    async def strike(self, one: Strike) -> Struck | None:
        """Wait, strike, and wait until everybody serves; None for what does not apply."""
        act = self._acts.get(one.fault)
        if act is None:
            return None
        await asyncio.sleep(one.pause_s)
        victim = self._names[one.member % len(self._names)]
        begun_s = self._load.now_s()
        figures = await act(one, victim)
        over_s = self._load.now_s()
        rounded = {name: round(value, 3) for name, value in figures.items()}
        return Struck(one.fault, victim, round(begun_s, 3), round(over_s, 3), rounded)

    async def _kill_server(self, one: Strike, victim: str) -> Figures:
        """Kill -9 a server while it answers a full house."""
        running = self._fleet.members[victim]
        async with asyncio.TaskGroup() as group:
            for _ in range(HOUSE):
                group.create_task(self._load.speak("plain", length=LONG_PIECES))
            await asyncio.sleep(BEGUN_S)
            struck_s = self._load.now_s()
            os.kill(program_in(running), signal.SIGKILL)
            await asyncio.to_thread(running.process.wait, GONE_S)
        await asyncio.sleep(one.lasts_s)
        await self._fleet.restart(victim)
        return {"struck_s": struck_s, "back": await self._works_again(victim)}

    async def _stop_server(self, one: Strike, victim: str) -> Figures:
        """Stop a server's process, which keeps its connections open."""
        server = program_in(self._fleet.members[victim])
        os.kill(server, signal.SIGSTOP)
        try:
            await asyncio.sleep(NOTICE_S)
            noticed_s = self._load.now_s()
            await asyncio.sleep(max(one.lasts_s, HANGS_S))
        finally:
            resumed_s = self._load.now_s()
            os.kill(server, signal.SIGCONT)
        back = await self._works_again(victim)
        return {"noticed_s": noticed_s, "resumed_s": resumed_s, "back": back}

    async def _restart(self, one: Strike, _victim: str) -> Figures:
        self._fleet.gateway.kill()
        await asyncio.sleep(0.25 * one.lasts_s)
        self._fleet.gateway = self._front.start()
        if not await self._front.answers():
            return {"nodes_back": 0.0}
        back = [await self._works_again(name) for name in self._names]
        return {"nodes_back": min(back)}

    async def _works_again(self, name: str) -> float:
        """Say 1 when a server gets work, and 0 if it gets none for too long."""
        before = await self._work(name)
        for _ in range(round(WORKS_S / POLL_S)):
            if await self._work(name) > before:
                return 1.0
            await asyncio.sleep(POLL_S)
        return 0.0

    async def _work(self, name: str) -> float:
        told = _WORK.search((await self._fleet.members[name].get("/metrics")).decode())
        return float(told[1]) if told else 0.0

    async def _slow_client(self, _one: Strike, _victim: str) -> Figures:
        async with asyncio.TaskGroup() as group:
            for _ in range(SLOW):
                group.create_task(self._load.speak("slow"))
        return {"clients": float(SLOW)}

    async def _stuck_reader(self, _one: Strike, _victim: str) -> Figures:
        """Have clients that never read, and wait until the kernel shows that they were given up."""
        fleet, clock = self._fleet, self._load.now_s
        # Events of a letter each are more than what the kernel takes in for who does not read.
        script = '@script {"pieces": ["t"], "delay_ms": 0.1}'
        loud = Chat(
            *(fleet.port, fleet.stage.model, script),
            max_tokens=25_000,
            ignore_eos=True,
            on_loss="",
        )
        connections = [stuck_reader(loud) for _ in range(STUCK)]
        ports = {connection.getsockname()[1] for connection in connections}
        began_s = clock()
        for _ in range(round(SEEN_S / POLL_S)):
            if clock() - began_s > SEEN_S or not ports & open_clients(fleet.port):
                break
            await asyncio.sleep(POLL_S)
        cut_s = clock() - began_s
        left = open_clients(fleet.port)
        tails = []
        for connection in connections:
            if connection.getsockname()[1] in left:
                connection.close()
            else:
                tails.append(await asyncio.to_thread(rest_of, connection))
        return {"cut_s": cut_s, "done_marks": float(sum(b"[DONE]" in tail for tail in tails))}

    async def _port_taken(self, _one: Strike, _victim: str) -> Figures:
        """Start another gateway where one listens, and ask that one."""
        second = self._front.start()
        try:
            code = await asyncio.to_thread(second.process.wait, SECOND_S)
        except TimeoutExpired:
            second.kill()
            code = 0
        answer = await self._load.speak("plain")
        unharmed = answer.end == "complete"
        return {"told": float(code != 0 and unharmed), "code": float(code), "unharmed": unharmed}
