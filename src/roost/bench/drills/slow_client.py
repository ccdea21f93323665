"""SHELL: E7, slow clients: they stop reading; neighbours must not feel it, and they are cut."""

from __future__ import annotations

import asyncio
import random
import socket
from time import monotonic

import msgspec

from roost.bench.claims import Check, Report, at_most, ms, none_of, quantile, table
from roost.bench.drills import fleets
from roost.bench.drills.answers import Answer, rebased
from roost.bench.drills.arrivals import at_once
from roost.bench.drills.asking import Chat, ask, scripted
from roost.bench.drills.plan import Plan
from roost.bench.drills.stage import Running, Stage
from roost.bench.load.environment import server_behind

SLOTS, STUCK = 3, 2
GAP_MS = 10.0
WRITE_DEADLINE_S = 0.8
RECEIVE_BYTES = 4096
FLAGS = (
    *("--stream-write-deadline-s", str(WRITE_DEADLINE_S)),
    *("--stream-send-buffer-bytes", "8192"),
)
GAP_RATIO_P50, GAP_RATIO_P99 = 1.2, 2.0
NEVER_S = 20.0
GROWN_MIB = 16.0
"""What a process of this size may grow by in so many requests, stuck clients or not."""
LATE_S = 1.5
"""How much later than the deadline the slot may be seen free: buffers fill first, and the node's
reports come once a second."""


class Slow(msgspec.Struct, frozen=True):
    """What a neighbour saw alone and beside stuck clients, and what became of those.

    `cut_s` is from their request until what they held was free, at most `NEVER_S`; `done_marks`
    counts those that were told `[DONE]`. `rss_bytes` is the gateway's memory before and after.
    """

    where: str
    alone: Answer
    beside: Answer
    cut_s: float
    done_marks: int
    held: int
    after: tuple[Answer, ...]
    rss_bytes: tuple[int, int]


async def served(stage: Stage, plan: Plan) -> Report:
    """Stuck clients of `roost serve`."""
    return _judged(await slowed_serve(stage, plan.pick(short=1.2, full=6.0)), plan)


async def upstream(stage: Stage, plan: Plan) -> Report:
    """Stuck clients of a stateless gateway."""
    return _judged(await slowed_gateway(stage, plan.pick(short=1.2, full=6.0)), plan)


def _judged(seen: Slow, plan: Plan) -> Report:
    # In a short run p99 is one arrival, and the machine's as much as roost's.
    p50, p99 = plan.pick(short=1.5, full=GAP_RATIO_P50), plan.pick(short=4.0, full=GAP_RATIO_P99)
    return judge(seen, (p50, p99))


async def slowed_serve(stage: Stage, seconds: float) -> Slow:
    """Let clients of `roost serve` get stuck beside one that reads for so long."""
    server = stage.serve("server", "--slots", str(SLOTS), *FLAGS)
    await server.serves()
    return await _slowed(stage, server, seconds, "roost serve")


async def slowed_gateway(stage: Stage, seconds: float) -> Slow:
    """Let clients of a stateless gateway get stuck beside one that reads for so long."""
    flags = ("--upstream-max-in-flight", str(SLOTS), *FLAGS)
    fleet = await fleets.servers(stage, 1, ("--slots", str(SLOTS)), flags)
    return await _slowed(stage, fleet.gateway, seconds, "a stateless gateway")


async def _slowed(stage: Stage, server: Running, seconds: float, where: str) -> Slow:
    dice = random.Random(6)
    clock = monotonic

    def neighbour() -> Chat:
        pieces = round(1000 * seconds / GAP_MS)
        return Chat(server.port, stage.model, scripted(dice, pieces, GAP_MS), max_tokens=9000)

    await at_once([Chat(server.port, stage.model, scripted(dice, 1, 0.0)) for _ in range(SLOTS)])
    alone = await ask(neighbour())
    before_bytes = rss_bytes(server.port)
    loud = Chat(
        server.port, stage.model, scripted(dice, 1, 0.5), max_tokens=25_000, ignore_eos=True
    )
    stuck = [stuck_reader(loud) for _ in range(STUCK)]
    began_s = clock()
    async with asyncio.TaskGroup() as group:
        beside = group.create_task(ask(neighbour()))
        freed = group.create_task(_only_one_left(server))
    tails = [await asyncio.to_thread(rest_of, connection) for connection in stuck]
    view = await server.settled()
    after = await at_once(
        [Chat(server.port, stage.model, scripted(dice, 3, 5.0)) for _ in range(SLOTS)]
    )
    kept_alone, kept_beside = (
        rebased([one], one.due_s, stamps=True)[0] for one in (alone, beside.result())
    )
    return Slow(
        where,
        kept_alone,
        kept_beside,
        cut_s=min(NEVER_S, freed.result() - began_s),
        done_marks=sum(b"[DONE]" in tail for tail in tails),
        held=view.held,
        after=rebased(after, after[0].due_s, stamps=False),
        rss_bytes=(before_bytes, rss_bytes(server.port)),
    )


def rss_bytes(port: int) -> int:
    """Return the memory of who listens on a port; 0 where that cannot be seen."""
    behind = server_behind(port)
    return behind.rss_bytes if behind else 0


def stuck_reader(chat: Chat) -> socket.socket:
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
    deadline_s = clock() + NEVER_S
    while clock() < deadline_s:
        leases = (await server.view()).statistics.leases
        begun = begun or leases > STUCK
        if begun and leases <= 1:
            return clock()
        await asyncio.sleep(0.02)
    return float("inf")


def rest_of(connection: socket.socket) -> bytes:
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


def judge(seen: Slow, bars: tuple[float, float] = (GAP_RATIO_P50, GAP_RATIO_P99)) -> Report:
    """Compare the neighbour's gaps; `bars` are the most that p50 and p99 may grow by."""
    neighbours = (seen.alone, seen.beside)
    p50s, p99s = ([quantile(a.gaps_s, q) for a in neighbours] for q in (0.5, 0.99))
    rows = [
        [name, str(len(a.stamps)), ms(p50), ms(p99)]
        for name, a, p50, p99 in zip(("alone", "beside"), neighbours, p50s, p99s, strict=True)
    ]
    usable = sum(answer.end == "complete" for answer in seen.after)
    grown_bytes = seen.rss_bytes[1] - seen.rss_bytes[0]
    checks = (
        Check("the neighbour's answer is whole", seen.beside.end == "complete", seen.beside.end),
        at_most("its gaps beside stuck clients over alone, p50", p50s[1] / p50s[0], bars[0]),
        at_most("the same, p99", p99s[1] / p99s[0], bars[1]),
        at_most("stuck clients cost their place for", seen.cut_s, WRITE_DEADLINE_S + LATE_S, " s"),
        none_of("stuck clients told [DONE]", seen.done_marks),
        at_most("memory grew by", grown_bytes / 2**20, GROWN_MIB, " MiB"),
        none_of("held afterwards", seen.held),
        Check("every slot serves", usable == SLOTS, f"{usable} of {SLOTS}"),
    )
    figures = {"gap_p50_ratio": p50s[1] / p50s[0], "gap_p99_ratio": p99s[1] / p99s[0]}
    figures |= {"cut_s": seen.cut_s, "alone_p99_s": p99s[0], "grown_mib": grown_bytes / 2**20}
    heads = ("neighbour", "arrivals", "gap p50 ms", "gap p99 ms")
    return Report(f"E7 slow clients of {seen.where}", (table(heads, rows),), figures, checks)
