"""SHELL: does faults to a fleet of real processes, and waits until it is whole again."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import sleep

import msgspec

from roost.bench.chaos.load import Load
from roost.bench.chaos.schedule import Fault, Strike
from roost.bench.chaos.seen import Manner, Struck
from roost.bench.drills.asking import Chat
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.slow_client import rest_of, stuck_reader
from roost.bench.drills.stage import START_S, Running
from roost.bench.processes import family, living

Figures = dict[str, float]
Act = Callable[[Strike, str], Awaitable[Figures]]
GONE_S = 5.0
SEEN_S, HEALS_S, LOOK_S = 10.0, 30.0, 0.05
STUCK, SLOW, CROWD, TURNS, HOUSE = 2, 3, 24, 3, 6
LONG_PIECES, BEGUN_S = 40, 0.4
FILE_MAX_BYTES = 4096
"""A process that may write no further into any file is on a full disk."""
DEGRADED = b"\nroost_transcripts_degraded 1"
TAKEN = re.compile(r"in use|already")
ESTABLISHED = "01"
"""The kernel's word for a connection that neither end has closed."""


class _Line(msgspec.Struct):
    """A line of a log; timestamps of one form are in order as they are written."""

    event: str = ""
    runtime: str = ""
    timestamp: str = ""

    def of(self, event: str, model: str) -> bool:
        """Whether it tells of such an event of a runtime of this model."""
        return self.event == event and self.runtime.startswith(f"{model}#")


def cold_model(number: int) -> str:
    """Name the model that stampede number n is about; nobody else asks for it."""
    return f"c{number:03d}-cold"


class Striker:
    """Strikes one fleet, which has nodes of these names, under one load."""

    def __init__(self, fleet: Fleet, load: Load) -> None:
        self._fleet = fleet
        self._load = load
        self._names = sorted(fleet.members)
        self._crowds = 0
        self._acts: dict[Fault, Act] = {
            "kill-node": self._kill_node,
            "stop-node": self._stop_node,
            "restart-gateway": self._restart_gateway,
            "drain": self._drain,
            "slow-client": self._slow_client,
            "stuck-reader": self._stuck_reader,
            "stampede": self._stampede,
            "disk-full": self._disk_full,
            "port-taken": self._port_taken,
        }

    async def strike(self, one: Strike) -> Struck:
        """Wait, strike, and wait until everybody is back."""
        await asyncio.sleep(one.pause_s)
        victim = self._names[one.member % len(self._names)]
        begun_s = self._load.now_s()
        figures = await self._acts[one.fault](one, victim)
        await self._fleet.all_alive()
        over_s = self._load.now_s()
        rounded = {name: round(value, 3) for name, value in figures.items()}
        return Struck(one.fault, victim, round(begun_s, 3), round(over_s, 3), rounded)

    async def _kill_node(self, one: Strike, victim: str) -> Figures:
        """Kill -9 the node's own process while it answers, and look whether all of it goes.

        A full house is asked for first, half of it with answers that others may go on with.
        """
        running = self._fleet.members[victim]
        shim, node, *_ = every = family(running.process.pid)
        assert shim == running.process.pid, "a node runs under its shim"
        async with asyncio.TaskGroup() as group:
            for number in range(HOUSE):
                manner: Manner = "replay" if number % 2 else "plain"
                group.create_task(self._load.speak(manner, length=LONG_PIECES))
            await asyncio.sleep(BEGUN_S)
            struck_s = self._load.now_s()
            os.kill(node, signal.SIGKILL)
            await asyncio.to_thread(running.process.wait, GONE_S)
        await self._fleet.seen(lambda view: victim not in view.alive, "the death is noticed")
        gone = await asyncio.to_thread(_all_gone, every)
        await asyncio.sleep(one.lasts_s)
        await self._fleet.restart(victim)
        return {"gone": float(gone), "struck_s": struck_s}

    async def _stop_node(self, one: Strike, victim: str) -> Figures:
        """Stop the node's process, which keeps its connections open."""
        node = program_in(self._fleet.members[victim])
        os.kill(node, signal.SIGSTOP)
        try:
            await self._fleet.seen(lambda view: victim not in view.alive, "it is missed")
            noticed_s = self._load.now_s()
            await asyncio.sleep(one.lasts_s)
        finally:
            resumed_s = self._load.now_s()
            os.kill(node, signal.SIGCONT)
        back = await self._returns(victim)
        return {"noticed_s": noticed_s, "resumed_s": resumed_s, "back": float(back)}

    async def _returns(self, victim: str) -> bool:
        try:
            await self._fleet.seen(lambda view: victim in view.alive, "it is back")
        except TimeoutError:
            return False
        return True

    async def _restart_gateway(self, one: Strike, _victim: str) -> Figures:
        await self._fleet.restart_gateway(0.25 * one.lasts_s)
        try:
            await self._fleet.all_alive()
        except TimeoutError:
            return {"nodes_back": 0.0}
        return {"nodes_back": 1.0}

    async def _drain(self, one: Strike, victim: str) -> Figures:
        await self._fleet.gateway.post(f"/roost/v1/nodes/{victim}/drain")
        drained_s = self._load.now_s()
        await asyncio.sleep(one.lasts_s)
        undrained_s = self._load.now_s()
        await self._fleet.gateway.post(f"/roost/v1/nodes/{victim}/undrain")
        return {"drained_s": drained_s, "undrained_s": undrained_s}

    async def _slow_client(self, _one: Strike, _victim: str) -> Figures:
        """Have clients that read now and then, all at once."""
        async with asyncio.TaskGroup() as group:
            for _ in range(SLOW):
                group.create_task(self._load.speak("slow"))
        return {"clients": float(SLOW)}

    async def _stuck_reader(self, _one: Strike, _victim: str) -> Figures:
        """Have clients that never read, and wait until the gateway's end of them is closed."""
        fleet, clock = self._fleet, self._load.now_s
        script = '@script {"pieces": ["tick "], "delay_ms": 0.5}'
        loud = Chat(fleet.port, fleet.stage.model, script, max_tokens=25_000, ignore_eos=True)
        connections = [stuck_reader(loud) for _ in range(STUCK)]
        ports = {connection.getsockname()[1] for connection in connections}
        began_s = clock()
        for _ in range(round(SEEN_S / LOOK_S)):
            if clock() - began_s > SEEN_S or not ports & open_clients(fleet.port):
                break
            await asyncio.sleep(LOOK_S)
        cut_s = clock() - began_s
        tails = [await asyncio.to_thread(rest_of, connection) for connection in connections]
        return {"cut_s": cut_s, "done_marks": float(sum(b"[DONE]" in tail for tail in tails))}

    async def _stampede(self, _one: Strike, _victim: str) -> Figures:
        model = cold_model(self._crowds)
        self._crowds += 1
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._load.speak("plain", model)) for _ in range(CROWD)]
        whole = sum(task.result().end == "complete" for task in asked)
        outputs = (running.output for running in self._fleet.members.values())
        loads = loads_at_once("\n".join(outputs), model)
        return {"asked": float(CROWD), "whole": float(whole), "loads": float(loads)}

    async def _disk_full(self, one: Strike, _victim: str) -> Figures:
        """Let the gateway write no further into files, and go on with a conversation."""
        gateway = program_in(self._fleet.gateway)
        talker = self._load.talker(f"full-{round(1000 * self._load.now_s())}")
        await talker.talk(1, most=8)
        before = resource.prlimit(gateway, resource.RLIMIT_FSIZE)
        resource.prlimit(gateway, resource.RLIMIT_FSIZE, (FILE_MAX_BYTES, before[1]))
        try:
            began = len(talker.turns)
            await talker.talk(TURNS, most=8)
            failed = sum(told.end != "complete" for told in talker.turns[began:])
            await asyncio.sleep(one.lasts_s)
            full = await self._degraded()
        finally:
            resource.prlimit(gateway, resource.RLIMIT_FSIZE, before)
        await talker.talk(1, most=8)
        await self._heals()
        return {"failed": float(failed), "full": float(full)}

    async def _degraded(self) -> bool:
        """Whether the gateway keeps turns in memory for its disk."""
        return DEGRADED in await self._fleet.gateway.get("/metrics")

    async def _heals(self) -> None:
        """Wait until the disk has all turns: what memory alone has, a crash would take along."""
        for _ in range(round(HEALS_S / LOOK_S)):
            if not await self._degraded():
                return
            await asyncio.sleep(LOOK_S)
        raise TimeoutError(f"within {HEALS_S:g} s: the disk is written again")

    async def _port_taken(self, _one: Strike, _victim: str) -> Figures:
        """Start another gateway where one listens, and ask that one."""
        second = self._fleet.stage.start("second", "gateway", "--port", str(self._fleet.port))
        code = await asyncio.to_thread(second.process.wait, START_S)
        told = code == 1 and TAKEN.search(second.output) is not None
        answer = await self._load.speak("plain")
        unharmed = answer.end == "complete"
        return {"told": float(told and unharmed), "code": float(code), "unharmed": float(unharmed)}


def program_in(running: Running) -> int:
    """The process below a shim."""
    _shim, program, *_ = family(running.process.pid)
    return program


def open_clients(port: int) -> set[int]:
    """Return the ports of those whose connections to a port are open at its end."""
    found = set()
    for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]:
        _, here, there, state, *_ = line.split()
        if state == ESTABLISHED and int(here.partition(":")[2], 16) == port:
            found.add(int(there.partition(":")[2], 16))
    return found


def loads_at_once(output: str, model: str) -> int:
    """Count the loads of a model that had begun when the first of them was over.

    Later ones are right: a model whose places are all taken is loaded again elsewhere.
    """
    lines = [
        msgspec.json.decode(line, type=_Line) for line in output.splitlines() if line[:1] == "{"
    ]
    ready = [one.timestamp for one in lines if one.of("runtime_ready", model)]
    first = min(ready, default="~")
    return sum(one.of("runtime_loading", model) and one.timestamp < first for one in lines)


def _all_gone(pids: list[int]) -> bool:
    """Whether these processes have ended, a moment later."""
    for _ in range(round(GONE_S / LOOK_S)):
        if not any(living(pid) for pid in pids):
            return True
        sleep(LOOK_S)
    return False
