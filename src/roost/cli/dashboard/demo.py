"""MACHINE: a fleet that is played for `roost top --demo`: no server, no model, the same by a seed.

It says what a gateway says, in the same words: the same structs are written as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

import msgspec

from roost.core.about import Anomaly, RuntimeVitals
from roost.core.events import Usage
from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId, TenantId
from roost.core.snapshots import (
    DeviceView,
    MemoryReport,
    ModelOffer,
    RuntimeView,
    SlotView,
)
from roost.errors import fail
from roost.fleet.watching.happenings import Happenings
from roost.fleet.watching.hints import Hints
from roost.fleet.watching.telemetry import Ended, Telemetry, TelemetrySettings
from roost.fleet.watching.tenant_views import by_tenant
from roost.fleet.watching.views import NodeView, QueueView

if TYPE_CHECKING:
    from roost.fleet.watching.happenings import Level

GIB = 1024**3
STEP_S = 0.1
CATCH_UP_S = 60.0
QUEUE_MAX = 12
LEAVES_S, RETURNS_S, LOADS_S, SLOW_S = 60.0, 12.0, 4.0, 8.0
TENANTS = ("key:ann", "key:bob", "key:night-jobs", "addr:10.0.0.7")


class Dice(Protocol):
    """What chance there is."""

    def random(self) -> float:
        """A number from 0 to below 1."""
        ...

    def randrange(self, start: int, stop: int, /) -> int:
        """A whole number from `start` to below `stop`."""
        ...

    def getrandbits(self, bits: int, /) -> int:
        """So many bits."""
        ...


@dataclass
class _Runtime:
    model: str
    slots: int
    ctx: int
    pace: float
    state: str = "ready"
    since_s: float = 0.0
    generated: int = 0
    slow_until_s: float = 0.0
    held: dict[int, int] = field(default_factory=dict)


@dataclass
class _Node:
    id: str
    gib: int
    runtimes: list[_Runtime]
    here: bool = True
    draining: bool = False
    until_s: float = 0.0


@dataclass
class _Call:
    id: RequestId
    tenant: TenantId
    model: str
    arrived_s: float
    prompt: int
    wanted: int
    node: _Node | None = None
    runtime: _Runtime | None = None
    slot: int = 0
    done: float = 0.0
    said: float = 0.0
    text_s: float | None = None


def _machines() -> list[_Node]:
    return [
        _Node(
            "garage-pc",
            32,
            [_Runtime("qwen3-8b", 4, 8192, 42.0), _Runtime("gemma3", 4, 4096, 95.0)],
        ),
        _Node("laptop", 16, [_Runtime("gemma3", 2, 4096, 38.0)]),
        _Node("attic-mini", 8, [_Runtime("smollm2", 4, 2048, 60.0)]),
    ]


class DemoFleet:
    """Goes on in steps of `STEP_S` up to the time that it is told."""

    def __init__(self, dice: Dice, now: float, unix_ms: int) -> None:
        self._dice = dice
        self._born_s = self._now = now
        self._born_ms = unix_ms
        self._nodes = _machines()
        self._calls: list[_Call] = []
        self._telemetry = Telemetry(TelemetrySettings(recent=24))
        self._happenings = Happenings()
        self._hints = Hints()
        self._next_s, self._mishap_s = now, now + LEAVES_S / 4
        for node in self._nodes:
            self._tell("node_joined", "info", node=node.id)

    # --- what is asked of it

    def on_tick(self, now: float) -> None:
        """Let it go on; what is long past is not made up for."""
        self._now = max(self._now, now - CATCH_UP_S)
        self._next_s = max(self._next_s, self._now)
        while self._now + STEP_S <= now:
            self._now += STEP_S
            self._step()

    def on_action(self, method: str, path: str, body: dict[str, str | float]) -> None:
        """Do what an operator asks for, as a gateway would; raises its failures."""
        parts = [unquote(part) for part in path.removeprefix("/roost/v1/").split("/")]
        if method == "DELETE":
            self._stop(parts[-1])
            return
        node = next((one for one in self._nodes if one.id == parts[1]), None)
        if node is None or not node.here:
            raise fail("not_found", "No node of this id is known; `roost fleet` lists them.")
        if parts[2] == "unload":
            self._unload(node, str(body.get("model")))
            return
        node.draining = parts[2] == "drain"
        self._tell("operated", "info", by="you", what=parts[2], node=node.id)

    def raw(self) -> dict[str, object]:
        """Say how it is, as the gateway's two addresses would."""
        nodes, live = [self._view(node) for node in self._nodes], self._calls
        spent = {one.id: Usage(int(one.done), 0, int(one.said)) for one in live}
        line = tuple(self._line())
        self._hints.on_look(nodes, self._now, self._unix_ms)
        observed = {
            "observed_at_ms": self._unix_ms,
            "uptime_seconds": self._now - self._born_s,
            "role": "admin",
            "totals": self._telemetry.totals(),
            "requests": self._telemetry.rows(None, self._now, spent, self._doing()),
            "queue": by_tenant(line, [one.tenant for one in live], None),
            "events": self._happenings.rows(everything=True),
            "anomalies": self._hints.hints(),
        }
        said = {"observability": observed, "fleet": {"nodes": nodes}}
        return msgspec.convert(msgspec.to_builtins(said), dict[str, object])

    # --- a step

    def _step(self) -> None:
        now = self._now
        while self._next_s <= now:
            self._next_s += 0.2 + 1.4 * self._dice.random()
            self._arrive()
        for call in [one for one in self._calls if one.node is None]:
            self._seat(call)
        for call in list(self._calls):
            self._work(call)
        for node in self._nodes:
            self._change(node)
        if now >= self._mishap_s:
            self._mishap_s = now + LEAVES_S * (0.5 + self._dice.random())
            self._mishap()

    def _arrive(self) -> None:
        pick = self._dice.randrange
        models = sorted({one.model for node in self._nodes for one in node.runtimes})
        call = _Call(
            RequestId(f"{self._dice.getrandbits(128):032x}"),
            TenantId(TENANTS[min(pick(0, 6), 3)]),
            models[pick(0, len(models))],
            self._now,
            pick(40, 1500),
            pick(20, 400),
        )
        if sum(one.node is None for one in self._calls) >= QUEUE_MAX:
            self._tell("request_shed", "debug", request=call.id, reason="queue_full")
            return
        self._calls.append(call)
        asked = (call.id, call.tenant, ModelId(call.model))
        self._telemetry.on_arrived(*asked, self._now, self._unix_ms)

    def _seat(self, call: _Call) -> None:
        for node in self._nodes:
            for runtime in node.runtimes if node.here and not node.draining else ():
                taken = {one.slot for one in self._calls if one.runtime is runtime}
                free = [slot for slot in range(runtime.slots) if slot not in taken]
                if runtime.model == call.model and runtime.state == "ready" and free:
                    call.node, call.runtime, call.slot = node, runtime, free[0]
                    runtime.held[call.slot] = 0
                    self._telemetry.on_started(call.id, NodeId(node.id), self._now)
                    return

    def _work(self, call: _Call) -> None:
        runtime = call.runtime
        if runtime is None:
            return
        streams = sum(one.runtime is runtime for one in self._calls)
        pace = runtime.pace * (0.3 if self._now < runtime.slow_until_s else 1.0)
        if call.done < call.prompt:
            call.done = min(call.prompt, call.done + STEP_S * 12 * pace / streams)
        else:
            if call.text_s is None:
                call.text_s = self._now
                self._telemetry.on_first_text(call.id, self._now)
            before = int(call.said)
            call.said += STEP_S * pace / streams**0.6
            runtime.generated += int(call.said) - before
        room = runtime.ctx - 1
        runtime.held[call.slot] = min(room, int(call.done + call.said))
        if call.said >= call.wanted:
            self._end(call, "complete")
        elif self._dice.random() < 0.0004:
            self._end(call, "client_disconnect")

    def _end(self, call: _Call, outcome: str) -> None:
        self._calls.remove(call)
        usage = Usage(int(call.done), 0, int(call.said))
        last_s = self._now if call.text_s is not None else None
        self._telemetry.on_finished(call.id, "stop")
        self._telemetry.on_ended(call.id, Ended(outcome, usage, call.text_s, last_s), self._now)

    # --- what goes wrong, and gets well again

    def _mishap(self) -> None:
        node = self._nodes[self._dice.randrange(0, len(self._nodes))]
        if not node.here:
            return
        if self._dice.random() < 0.5 and sum(one.here for one in self._nodes) > 1:
            node.here, node.until_s = False, self._now + RETURNS_S
            self._tell("node_left", "warning", node=node.id, state="dead")
            for call in [one for one in self._calls if one.node is node]:
                self._lose(call)
            return
        runtime = node.runtimes[0]
        runtime.slow_until_s = self._now + SLOW_S
        odd = runtime.model
        self._tell("runtime_odd", "warning", node=node.id, model=odd, kind="slow_decode")

    def _lose(self, call: _Call) -> None:
        if call.text_s is not None:
            self._end(call, "node_lost")
            return
        self._tell("request_retried", "info", request=call.id, reason="node_lost")
        call.node = call.runtime = None
        call.done = 0.0

    def _change(self, node: _Node) -> None:
        if not node.here and self._now >= node.until_s:
            node.here = True
            self._tell("node_joined", "info", node=node.id)
            for runtime in node.runtimes:
                runtime.held.clear()
                self._load(node, runtime)
        for runtime in node.runtimes:
            waited = any(one.model == runtime.model and one.node is None for one in self._calls)
            if runtime.state == "absent" and waited and node.here and not node.draining:
                self._load(node, runtime)
            if runtime.state == "loading" and self._now >= runtime.since_s + LOADS_S:
                runtime.state = "ready"
                self._tell("runtime_ready", "info", node=node.id, model=runtime.model)

    def _load(self, node: _Node, runtime: _Runtime) -> None:
        runtime.state, runtime.since_s = "loading", self._now
        self._tell("runtime_loading", "info", node=node.id, model=runtime.model)

    # --- what operators do

    def _stop(self, request: str) -> None:
        call = next((one for one in self._calls if one.id == request), None)
        if call is None:
            raise fail("not_found", "No request of this id runs.")
        self._end(call, "cancelled")

    def _unload(self, node: _Node, model: str) -> None:
        runtime = next((one for one in node.runtimes if one.model == model), None)
        if runtime is None or runtime.state != "ready":
            raise fail("model_not_found", f"{model} is not loaded there.")
        if any(one.runtime is runtime for one in self._calls):
            raise fail("model_in_use", f"{model} is in use there.")
        runtime.state = "absent"
        runtime.held.clear()
        self._tell("order_sent", "info", node=node.id, model=model, what="unload")
        self._tell("runtime_gone", "info", node=node.id, model=model)

    # --- how it looks

    @property
    def _unix_ms(self) -> int:
        return self._born_ms + round(1000 * (self._now - self._born_s))

    def _tell(self, event: str, level: Level, **facts: str | bool) -> None:
        self._happenings.note(event, level, facts, self._unix_ms)

    def _doing(self) -> dict[RequestId, str]:
        waiting = [one for one in self._calls if one.node is None]
        words = {}
        for call in self._calls:
            if call.node is None:
                words[call.id] = f"queued {waiting.index(call) + 1}/{len(waiting)}"
            elif call.text_s is None:
                words[call.id] = f"prefill {100 * call.done / call.prompt:.0f} %"
            else:
                words[call.id] = "answering"
        return words

    def _line(self) -> Iterator[QueueView]:
        waiting = [one for one in self._calls if one.node is None]
        for place, call in enumerate(waiting, start=1):
            waited_s, cost = self._now - call.arrived_s, float(call.prompt + call.wanted)
            model = ModelId(call.model)
            yield QueueView(
                call.id, call.tenant, model, "interactive", place, waited_s, None, cost, None
            )

    def _view(self, node: _Node) -> NodeView:
        busy = sum(one.node is node for one in self._calls)
        taken = sum(one.state == "ready" for one in node.runtimes) * 4 * GIB + 2 * GIB
        device = DeviceView("host", node.gib * GIB, max(0, node.gib * GIB - taken))
        return NodeView(
            id=NodeId(node.id),
            name=node.id,
            state="alive" if node.here else "dead",
            in_flight=busy,
            draining=node.draining,
            models=tuple(
                ModelOffer(ModelId(one.model), one.slots, one.ctx) for one in node.runtimes
            ),
            runtimes=tuple(self._runtime(one) for one in node.runtimes),
            max_in_flight=sum(one.slots for one in node.runtimes),
            load_1m=round(0.3 + 0.4 * busy, 2),
            reported=True,
            memory=MemoryReport((device,)),
        )

    def _runtime(self, runtime: _Runtime) -> RuntimeView:
        if runtime.state != "ready":
            progress = min(1.0, (self._now - runtime.since_s) / LOADS_S)
            loading = runtime.state == "loading"
            return RuntimeView(
                ModelId(runtime.model),
                "llama",
                "loading" if loading else "absent",
                RuntimeId(f"{runtime.model}-1") if loading else None,
                progress=progress if loading else None,
            )
        streams = [one for one in self._calls if one.runtime is runtime]
        slow = self._now < runtime.slow_until_s
        odd: tuple[Anomaly, ...] = ("slow_decode",) if slow else ()
        speaking = sum(one.text_s is not None for one in streams)
        pace = runtime.pace * speaking**0.4 * (0.3 if slow else 1.0) if speaking else 0.0
        busy = {one.slot for one in streams}
        return RuntimeView(
            ModelId(runtime.model),
            "llama",
            "ready",
            RuntimeId(f"{runtime.model}-1"),
            tuple(SlotView(n, n in busy, runtime.held.get(n, 0)) for n in range(runtime.slots)),
            runtime.ctx,
            load_s=LOADS_S,
            vitals=RuntimeVitals(
                prefill_avg_s=600 / (12 * runtime.pace),
                decode_tokens_per_s=round(pace, 1),
                generated_tokens=runtime.generated,
                anomalies=odd,
            ),
        )
