"""SHELL: E7, slow clients: they stop reading; neighbours must not feel it, and they are cut."""

from __future__ import annotations

import asyncio
import random
import socket
from time import monotonic

from roost.bench.drills import fleets
from roost.bench.drills.arrivals import at_once
from roost.bench.drills.asking import Answer, Chat, ask, scripted
from roost.bench.drills.plan import Plan
from roost.bench.drills.report import Check, Report, at_most, ms, none_of, quantile, table
from roost.bench.drills.stage import Running, Stage

SLOTS, STUCK = 3, 2
GAP_MS = 10.0
WRITE_DEADLINE_S = 0.8
RECEIVE_BYTES = 4096
FLAGS = (
    *("--stream-write-deadline-s", str(WRITE_DEADLINE_S)),
    *("--stream-send-buffer-bytes", "8192"),
)
GAP_RATIO_P50, GAP_RATIO_P99 = 1.2, 2.0
LATE_S = 1.5
"""How much later than the deadline the slot may be seen free: buffers fill first, and the node's
reports come once a second."""


async def served(stage: Stage, plan: Plan) -> Report:
    """Stuck clients of `roost serve`."""
    server = stage.serve("server", "--slots", str(SLOTS), *FLAGS)
    await server.serves()
    return await _drill(stage, server, plan, "roost serve")


async def upstream(stage: Stage, plan: Plan) -> Report:
    """Stuck clients of a stateless gateway."""
    flags = ("--upstream-max-in-flight", str(SLOTS), *FLAGS)
    fleet = await fleets.servers(stage, 1, ("--slots", str(SLOTS)), flags)
    return await _drill(stage, fleet.gateway, plan, "a stateless gateway")


async def _drill(stage: Stage, server: Running, plan: Plan, where: str) -> Report:
    dice = random.Random(6)
    seconds = plan.pick(short=1.2, full=6.0)
    clock = monotonic

    def neighbour() -> Chat:
        pieces = round(1000 * seconds / GAP_MS)
        return Chat(server.port, stage.model, scripted(dice, pieces, GAP_MS), max_tokens=9000)

    await at_once([Chat(server.port, stage.model, scripted(dice, 1, 0.0)) for _ in range(SLOTS)])
    alone = await ask(neighbour())
    loud = Chat(
        server.port, stage.model, scripted(dice, 1, 0.5), max_tokens=25_000, ignore_eos=True
    )
    stuck = [_stuck(loud) for _ in range(STUCK)]
    began_s = clock()
    async with asyncio.TaskGroup() as group:
        beside = group.create_task(ask(neighbour()))
        freed = group.create_task(_only_one_left(server))
    cut_s = freed.result() - began_s
    tails = [await asyncio.to_thread(_rest, connection) for connection in stuck]
    view = await server.settled()
    after = await at_once(
        [Chat(server.port, stage.model, scripted(dice, 3, 5.0)) for _ in range(SLOTS)]
    )
    # In a short run p99 is one arrival, and the machine's as much as roost's.
    bars = (plan.pick(short=1.5, full=GAP_RATIO_P50), plan.pick(short=4.0, full=GAP_RATIO_P99))
    return _report(where, bars, (alone, beside.result()), (cut_s, tails), (view.held, after))


def _stuck(chat: Chat) -> socket.socket:
    """Ask over a socket with hardly any buffer, and read nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    connection.connect(("127.0.0.1", chat.port))
    connection.sendall(chat.request())
    return connection


async def _only_one_left(server: Running) -> float:
    """Wait until all have begun and the stuck ones have given back what they held."""
    clock = monotonic
    begun = False
    deadline_s = clock() + 20
    while clock() < deadline_s:
        leases = (await server.view()).statistics.leases
        begun = begun or leases > STUCK
        if begun and leases <= 1:
            return clock()
        await asyncio.sleep(0.02)
    return float("inf")


def _rest(connection: socket.socket) -> bytes:
    """Read what is left for a client that wakes up too late."""
    connection.settimeout(5)
    parts = []
    try:
        while part := connection.recv(65_536):
            parts.append(part)
    except OSError:
        # Reset by the server: as good an end.
        pass
    finally:
        connection.close()
    return b"".join(parts)


def _report(
    where: str,
    bars: tuple[float, float],
    neighbours: tuple[Answer, Answer],
    cut: tuple[float, list[bytes]],
    after: tuple[int, list[Answer]],
) -> Report:
    alone, beside = neighbours
    (cut_s, tails), (held, answers) = cut, after
    p50s, p99s = ([quantile(a.gaps_s, q) for a in neighbours] for q in (0.5, 0.99))
    rows = [
        [name, str(len(a.stamps)), ms(p50), ms(p99)]
        for name, a, p50, p99 in zip(("alone", "beside"), neighbours, p50s, p99s, strict=True)
    ]
    usable = sum(answer.end == "complete" for answer in answers)
    checks = (
        Check("the neighbour's answer is whole", beside.end == "complete", beside.end),
        at_most("its gaps beside stuck clients over alone, p50", p50s[1] / p50s[0], bars[0]),
        at_most("the same, p99", p99s[1] / p99s[0], bars[1]),
        at_most("stuck clients cost their place for", cut_s, WRITE_DEADLINE_S + LATE_S, " s"),
        none_of("stuck clients told [DONE]", sum(b"[DONE]" in tail for tail in tails)),
        none_of("held afterwards", held),
        Check("every slot serves", usable == SLOTS, f"{usable} of {SLOTS}"),
    )
    figures = {"gap_p50_ratio": p50s[1] / p50s[0], "gap_p99_ratio": p99s[1] / p99s[0]}
    figures |= {"cut_s": cut_s, "alone_p99_s": p99s[0], "whole": float(alone.end == "complete")}
    heads = ("neighbour", "arrivals", "gap p50 ms", "gap p99 ms")
    return Report(f"E7 slow clients of {where}", (table(heads, rows),), figures, checks)
