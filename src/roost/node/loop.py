"""SHELL: the node's one writer: it alone calls the agent, and performs what the agent returns.

Links, runtimes and streams live in tasks of their own and speak to the agent through a bounded
inbox; when that is full they wait, and behind them their backends and connections. Nothing that
`run` has started is left when it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import msgspec

from roost.backends.base import Remembering, Runtime
from roost.core.about import NodeAbout
from roost.core.ids import ModelId, RuntimeId, TenantId
from roost.core.snapshots import ModelOffer, PullView
from roost.node.agent import Agent
from roost.node.effects import Effect
from roost.node.endings import FORCE_S, all_ended
from roost.node.hands import Check, Hands, Launch, Report
from roost.node.inbox import Inbox
from roost.node.machine.scales import Calibration, Probe, ScalesSettings
from roost.node.machine.telemetry import measure
from roost.node.models.pulls import Puller
from roost.node.perform import perform
from roost.node.prompts.counters import Counters
from roost.node.refusals import DRAINING
from roost.node.relief import Weights
from roost.node.settings import AgentSettings, LoopTimes
from roost.node.states.keeping import Keeper, KeepSettings
from roost.node.states.parked import Kept
from roost.node.statistics import AgentStatistics
from roost.observe.logs import Log
from roost.store.shelved import Found
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import NodeEnd
from roost.wire.link_tables import Close
from roost.wire.memory import NodeConnection
from roost.wire.messages import (
    Cancel,
    CancelPull,
    Credit,
    FromGateway,
    Goodbye,
    Hello,
    Open,
    Order,
    Pull,
    StateOrder,
    Vacate,
    Want,
    Welcome,
)
from roost.wire.pump import Pump, PumpSettings

IDLE_TICK_S = 60.0
"""Between two looks at an agent that has nothing to wait for."""

Describe: TypeAlias = Callable[[Mapping[RuntimeId, Runtime]], Awaitable[NodeAbout]]
"""Looks at the node and its runtimes."""


class LoopSettings(msgspec.Struct, frozen=True):
    """Limits of a node's loop.

    `inbox_max` reports wait for the agent, `tick_s` is the most that a tick is late while reports
    keep coming, `stop_grace_s` is what a runtime gets between asking and killing, and `force_s`
    what it then may take to be gone; `telemetry_s` passes between two measurements of the machine.
    """

    inbox_max: int = 1024
    tick_s: float = 0.05
    stop_grace_s: float = 10.0
    force_s: float = FORCE_S
    telemetry_s: float = 5.0
    scales: ScalesSettings = ScalesSettings()
    keep: KeepSettings = KeepSettings()
    link: LinkSettings = LinkSettings()
    pump: PumpSettings = PumpSettings()


class NodeLoop:
    """Runs one agent; `run` is its life, everything else may be called while it runs."""

    def __init__(
        self,
        agent: Agent,
        launch: Launch,
        hello: Hello,
        settings: LoopSettings,
        clock: Callable[[], float],
        log: Log,
    ) -> None:
        self._agent = agent
        self._hello = hello
        self._settings = settings
        self._clock = clock
        self._log = log
        self._inbox: Inbox[Report] = Inbox(settings.inbox_max)
        self._hands = Hands(agent, launch, self._inbox, log)
        self._hands.stop_grace_s, self._hands.force_s = settings.stop_grace_s, settings.force_s
        self._hands.keeper = Keeper(settings.keep)
        self._puller: Puller | None = None
        self._counters: Counters | None = None
        self._describe: Describe | None = None
        self._salt: Callable[[TenantId], TenantId] = _as_it_is
        self._kept: tuple[Kept, ...] = ()
        self._last_link = 0
        self.mapped_bytes = 0
        self._is_draining = self._is_ending = self._is_leaving = False
        self._is_acting = False
        self._tick_at = 0.0
        self._defect: Exception | None = None
        self._idle = asyncio.Event()
        self._over = asyncio.Event()

    def check_with(self, check: Check) -> None:
        """Have this look at a model's files before others make room for it."""
        self._hands.check = check

    def count_with(self, counters: Counters) -> None:
        """Have these count prompts of models that are not loaded."""
        self._counters, self._hands.count = counters, counters.prepared

    def pull_with(self, puller: Puller) -> None:
        """Have this fetch what operators want; without it the node takes no pulls."""
        self._puller = puller

    def describe_with(self, describe: Describe) -> None:
        """Have this look at the node for its reports, as often as it is measured."""
        self._describe = describe

    def salt_with(self, salt: Callable[[TenantId], TenantId]) -> None:
        """Know tenants by these names alone: what is kept of them may outlive the process."""
        self._salt = salt

    def begin_with(self, found: Found, kept: tuple[Kept, ...]) -> None:
        """An earlier life of this node has left these."""
        self._kept = kept
        self._hands.keeper.find(found)

    def weigh_with(self, probe: Probe, calibrate: Calibration) -> None:
        """Have the machine's memory looked at with this, and what runtimes take written down."""
        self._hands.scales.use(probe, calibrate)

    async def run(self) -> None:
        """Serve until `stop` has done its work; a cancel stops everything at once."""
        try:
            async with asyncio.TaskGroup() as group:
                self._hands.group = group
                self._take_over()
                beside = [group.create_task(self._measure())]
                scales, runtimes = self._hands.scales, self._hands.runtimes
                weighing = scales.run(runtimes, self._tell_weights, self._settings.scales)
                beside.append(group.create_task(weighing))
                if self._puller is not None:
                    beside.append(group.create_task(self._puller.run(self._tell_pulls)))
                if self._counters is not None:
                    beside.append(group.create_task(self._counters.run()))
                await self._write()
                for task in beside:
                    task.cancel()
        finally:
            self._over.set()
            self._inbox.close()
            left = list(self._hands.runtimes.values())
            await all_ended(left, self._hands.stop_grace_s, self._settings.force_s)
            if self._counters is not None:
                await self._counters.close()

    def follow(self, settings: AgentSettings, times: LoopTimes) -> None:
        """Go by these limits from now on, or from the beginning if that is still to come."""
        self._hands.stop_grace_s = times.stop_grace_s
        self._hands.keeper.settings = msgspec.structs.replace(
            self._hands.keeper.settings, timeout_s=times.move_timeout_s
        )
        if self._counters is not None:
            self._counters.keep_s = times.count_keep_s
        self._soon(partial(self._agent.on_settings, settings))

    def offer(self, offers: Iterable[ModelOffer]) -> None:
        """Offer these models from now on, or from the beginning if that is still to come."""
        self._soon(partial(self._agent.on_models, tuple(offers)))

    async def preload(self, model: ModelId) -> None:
        """Load a model in the background."""
        await self._hands.tell(partial(self._agent.on_preload, model))

    async def set_models(self, offers: Iterable[ModelOffer]) -> None:
        """These models are installed now."""
        await self._hands.tell(partial(self._agent.on_models, tuple(offers)))

    async def forget(self, tenant: TenantId) -> None:
        """Nobody asks for this tenant any more."""
        owner = self._salt(tenant)
        counting = () if self._counters is None else self._counters.runtimes
        for runtime in (*self._hands.runtimes.values(), *counting):
            if isinstance(runtime, Remembering):
                runtime.forget(owner)
        await self._hands.tell(partial(self._agent.on_forget, owner))

    async def stop(self, grace_s: float) -> bool:
        """Drain for `grace_s`, end what is left, say goodbye to every gateway, and end `run`.

        Returns whether everything had ended by itself. A later call with less grace hurries an
        earlier one; once `run` is over there is nothing left to do.
        """
        if self._over.is_set():
            return self._idle.is_set()
        # Through the inbox: whoever writes has to see that this is the way to the end.
        await self._inbox.put(self._drain)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), grace_s)
        drained = self._idle.is_set()
        await self._hands.tell(self._shut_down)
        await self._over.wait()
        return drained

    async def serve_link(self, connection: NodeConnection) -> Close:
        """Be a node on this connection until it ends, and say why it did."""
        if self._is_leaving or self._over.is_set():
            await connection.close()
            return Close(DRAINING, again=False)
        self._last_link += 1
        link = self._last_link
        end = NodeEnd(self._hello, self._settings.link, self._clock())
        deliver = partial(self._deliver, link)
        pump = Pump(end, connection, deliver, self._settings.pump, self._clock)
        pump.hear_at_once(lambda: self._inbox.has_room)
        pump.start_with(end.start())
        self._hands.links[link] = pump
        try:
            return await pump.run()
        finally:
            del self._hands.links[link]
            self._hands.runs.on_link_down(link)
            if not self._over.is_set():
                await self._hands.tell(partial(self._agent.on_link_down, link))

    def statistics(self) -> AgentStatistics:
        """The agent at a glance."""
        return self._agent.statistics()

    def _soon(self, report: Report) -> None:
        """Give the agent a report without waiting for room: one that a person has caused."""
        self._hands.asides.append(report)
        # Asides come with the next report that is performed. Is there no room for an empty one,
        # others are there already.
        self._hands.hint(_nothing_new)

    def _deliver(self, link: int, message: FromGateway) -> Awaitable[None] | None:
        """Bring the agent what a gateway says; gives back what waits for room, if there is none."""
        match message:
            case Welcome():
                self._log.info("link_up", gateway=message.gateway)
                return self._hands.offer(partial(self._agent.on_link_up, link))
            case Open():
                asked = msgspec.structs.replace(message, tenant=self._salt(message.tenant))
                self._hands.runs.on_open(link, asked)
                return self._hands.offer(partial(self._agent.on_message, link, asked))
            case Credit() | Cancel():
                return self._hands.offer(partial(self._agent.on_message, link, message))
            case Want():
                return self._hands.offer(partial(self._agent.on_preload, message.model))
            case Pull() | CancelPull():
                self._on_pull(message)
                return None
            case StateOrder():
                return self._hands.offer(partial(self._agent.on_state_order, link, message))
            case Order():
                return self._hands.offer(partial(self._agent.on_order, message))
            case Vacate():
                return self._hands.offer(partial(self._agent.on_vacate, link, message.vacant))
            case _:
                raise AssertionError(f"the link machine delivered {type(message).__name__}")

    def _on_pull(self, message: Pull | CancelPull) -> None:
        """Take what operators want, or want no more; a node that takes no pulls has said so."""
        if self._puller is None:
            return
        if isinstance(message, Pull):
            self._puller.ask(message)
        else:
            self._puller.cancel(message.job)

    async def _tell_pulls(self, views: tuple[PullView, ...]) -> None:
        await self._hands.tell(partial(self._agent.on_pulls, views))

    async def _write(self) -> None:
        self._tick_at = self._clock()
        self._hands.step = self._step
        while not self._is_done():
            if not self._inbox:
                await self._inbox.wait(max(0.0, self._tick_at - self._clock()))
            if self._defect is not None:
                raise self._defect
            report, now = self._inbox.take(), self._clock()
            if report is not None:
                self._act(report, now)
            if now >= self._tick_at:
                self._act(self._agent.on_tick, now)
                due = self._agent.next_tick()
                self._tick_at = now + IDLE_TICK_S if due is None else due

    def _act(self, report: Report, now: float) -> None:
        """Have the agent hear something, and do what it asks for."""
        self._is_acting = True
        self._perform(report(now))
        self._is_acting = False
        # Whatever it changed is looked at within `tick_s`. Asking the agent for its next tick after
        # every event would mean going through all streams for each of them.
        self._tick_at = min(self._tick_at, now + self._settings.tick_s)

    def _step(self, report: Report) -> bool:
        """Do a step of `_write` in the call of whoever reports, if that is what it would do next.

        So there is still one writer: either waits, with nothing before it, while the other acts. On
        the way to the end it alone does, since each of its steps may be the last.
        """
        if self._is_acting or self._inbox or self._is_draining or self._defect is not None:
            return False
        tick_at = self._tick_at
        try:
            self._act(report, self._clock())
        except Exception as error:  # noqa: BLE001 - raised again where the loop is run
            self._defect = error
        if self._tick_at < tick_at or self._defect is not None:
            self._inbox.ring_in(self._settings.tick_s)
        return True

    def _perform(self, effects: list[Effect]) -> None:
        """Carry out effects, and those of what performing them brings up."""
        for effect in effects:
            perform(self._hands, effect)
        while self._hands.asides:
            self._perform(self._hands.asides.popleft()(self._clock()))

    def _take_over(self) -> None:
        now, quarantined = self._clock(), self._hands.keeper.quarantined
        self._perform(self._agent.on_kept(self._kept, now))
        self._perform(self._agent.on_quarantined(quarantined, now))

    def _drain(self, now: float) -> list[Effect]:
        self._is_draining = True
        return self._agent.on_drain(now)

    def _shut_down(self, now: float) -> list[Effect]:
        self._is_ending = True
        return self._agent.on_shutdown(now)

    def _is_done(self) -> bool:
        """Whether the end has been reached; the steps towards it are taken here.

        Goodbye comes when nothing runs: after every answer and every Released that can be sent.
        """
        if not self._is_draining:
            return False
        now = self._agent.statistics()
        if now.live == 0:
            self._idle.set()
        is_over = now.in_flight == now.runtimes == now.writing == 0
        if self._is_ending and not self._is_leaving and is_over:
            self._is_leaving = True
            for pump in self._hands.links.values():
                pump.post(Goodbye(DRAINING, again=False))
        return self._is_leaving and now.live == 0 and not self._hands.links

    async def _measure(self) -> None:
        while True:
            rss_bytes, load_1m = await measure(list(self._hands.runtimes.values()))
            await self._hands.tell(partial(self._agent.on_telemetry, rss_bytes, load_1m))
            if self._describe is not None:
                about = await self._describe(self._hands.runtimes)
                await self._hands.tell(partial(self._agent.on_about, about))
            await asyncio.sleep(self._settings.telemetry_s)

    async def _tell_weights(self, weights: Weights) -> None:
        self.mapped_bytes = weights.mapped_bytes
        await self._hands.tell(partial(self._agent.on_weighed, weights))


def _nothing_new(_now: float) -> list[Effect]:
    return []


def _as_it_is(tenant: TenantId) -> TenantId:
    return tenant
