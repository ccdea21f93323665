"""SHELL: one function per effect of `node.effects`: what the agent asks for is done here.

Performing never waits: it starts a task, calls off one, or queues a message. What comes of it is
told to the agent later, through the loop's inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import TypeAlias

from roost.backends.base import Hold, Poured, Prepared, Runtime, SavedState
from roost.core.events import Failed, StreamEvent
from roost.core.ids import RuntimeId
from roost.errors import Failure, RoostError
from roost.node.cold import VOCABULARY
from roost.node.effects import (
    Calibrate,
    Demote,
    Effect,
    Forget,
    Load,
    Look,
    Mark,
    Park,
    Pause,
    Prepare,
    Pressed,
    Promote,
    Restore,
    Run,
    Send,
    Stop,
    StreamKey,
    Unload,
    Weigh,
)
from roost.node.endings import ended
from roost.node.hands import Hands, Report
from roost.node.jobs import Job
from roost.node.prompts import vectors
from roost.wire.messages import Cancel, Events, FromGateway, FromNode, Refused
from roost.wire.pump import Pump

Move: TypeAlias = Park | Restore | Demote | Promote | Mark

GONE = Failure("runtime_died", "the runtime has ended")
DEFECT = Failure("internal", "a defect in the node ended the request")
LOADER_DEFECT = Failure("load_failed", "the backend has a defect, which the node's log names")
NO_STATES = Failure(
    "load_failed",
    "what its slots hold does not come back from a file as it was (tried at its start),"
    " and `sessions.reuse` is required: set it to prefer",
)
UNSENDABLE = Failure("internal", "the backend said something that no link can carry")


def perform(hands: Hands, effect: Effect) -> None:
    """Do what one effect says."""
    match effect:
        case Send():  # Nearly all are: one for each token.
            send(hands, effect)
        case Load():
            load(hands, effect)
        case Look():
            hands.tasks.create_task(_look(hands, effect))
        case Unload():
            unload(hands, effect)
        case Weigh():
            hands.scales.weigh(effect.number)
        case Calibrate():
            work = hands.scales.note(hands.runtimes.get(effect.runtime), effect.measured_bytes)
            hands.tasks.create_task(_failure_of(hands, "calibrate", work))
        case Pressed():
            hands.scales.tell(effect)
        case Prepare():
            prepare(hands, effect)
        case Run():
            run(hands, effect)
        case Stop():
            stop(hands, effect)
        case Pause():
            pause(hands, effect)
        case Park():
            hands.tasks.create_task(_park(hands, effect))
        case Restore():
            hands.tasks.create_task(_restore(hands, effect))
        case Demote():
            hands.tasks.create_task(_demote(hands, effect))
        case Promote():
            hands.tasks.create_task(_promote(hands, effect))
        case Mark():
            hands.tasks.create_task(_moved(hands, effect, hands.keeper.mark(effect)))
        case Forget():
            forgetting = hands.keeper.forget(effect)
            hands.tasks.create_task(_failure_of(hands, "forget", forgetting))


def load(hands: Hands, effect: Load) -> None:
    """Start a runtime."""
    hands.log.info("runtime_loading", model=effect.model, runtime=effect.runtime)
    job = hands.loads[effect.runtime] = Job()
    job.start(hands.tasks, partial(_load, hands, effect))


def unload(hands: Hands, effect: Unload) -> None:
    """Stop a runtime, or call its start off."""
    starting = hands.loads.get(effect.runtime)
    runtime = hands.runtimes.get(effect.runtime)
    if starting is not None:
        starting.stop()
    elif runtime is not None:
        hands.tasks.create_task(_end(hands, effect.runtime, runtime, hands.stop_grace_s))


def prepare(hands: Hands, effect: Prepare) -> None:
    """Render and tokenise."""
    job = hands.jobs[effect.key] = Job()
    job.start(hands.tasks, partial(_prepare, hands, effect))


def run(hands: Hands, effect: Run) -> None:
    """Open the backend's stream and read it."""
    job = hands.jobs[effect.key] = Job()
    job.start(hands.tasks, partial(_run, hands, effect))


def stop(hands: Hands, effect: Stop) -> None:
    """Leave a stream's work; where it has just ended by itself, say so."""
    job = hands.jobs.get(effect.key)
    if job is None:
        hands.asides.append(partial(hands.agent.on_closed, effect.key, None))
    else:
        job.stop()


def pause(hands: Hands, effect: Pause) -> None:
    """Read a backend's stream no further, or go on."""
    job = hands.jobs.get(effect.key)
    if job is None:
        return
    if effect.paused:
        job.go.clear()
    else:
        job.go.set()


def send(hands: Hands, effect: Send) -> None:
    """Queue a message; the agent may not have heard yet that the link is gone."""
    pump = hands.links.get(effect.link)
    if pump is None:
        return
    try:
        pump.post(effect.message)
    except RoostError:
        _send_trouble(hands, pump, effect)
    else:
        hands.runs.on_sent(effect.link, effect.message)


def _send_trouble(hands: Hands, pump: Pump[FromNode, FromGateway], effect: Send) -> None:
    """Say in place of a message that cannot be framed that its stream has failed, and leave it.

    Only a backend's words can be like that; a status and the rest are of this node's own making.
    """
    hands.log.error("internal_error", where="send", error=type(effect.message).__name__)
    match effect.message:
        case Events(stream, seq):
            # The same number: the gateway must see no gap, and the end of the stream in its place.
            told: FromNode = Events(stream, seq, (Failed(UNSENDABLE),))
        case Refused(stream):
            told = Refused(stream, UNSENDABLE)
        case _:
            raise AssertionError(f"{type(effect.message).__name__} cannot be framed")
    pump.post(told)
    hands.runs.on_sent(effect.link, told)
    hands.asides.append(partial(hands.agent.on_message, effect.link, Cancel(stream)))


async def _load(hands: Hands, effect: Load, job: Job) -> None:
    model, name = effect.model, effect.runtime
    started: list[Runtime] = []

    async def start() -> None:
        progress = partial(_on_progress, hands, name)
        started.append(await hands.launch(model, name, progress))

    failure = await _failure_of(hands, "load", job.stoppable(start))
    if started and hands.keeper.settings.required and started[0].states is None:
        failure = NO_STATES
        await _failure_of(hands, "unload", ended(started.pop(), hands.stop_grace_s))
    if not started:
        await hands.tell(partial(_load_over, hands, effect, failure))
        return
    del hands.loads[name]
    await _on_started(hands, name, started[0], job)


def _load_over(hands: Hands, effect: Load, failure: Failure | None, now: float) -> list[Effect]:
    """A load counts as work until the agent hears of its end, as a run does.

    It may be called off by what is told before, and whoever has done that waits for it to be gone.
    """
    model, name = effect.model, effect.runtime
    if hands.loads.pop(name).stopped:
        return hands.agent.on_runtime_gone(name, now)
    assert failure is not None
    hands.log.warning("runtime_failed", model=model, runtime=name, reason=failure.reason)
    return hands.agent.on_load_failed(name, failure, now)


async def _look(hands: Hands, effect: Look) -> None:
    failure = await _failure_of(hands, "look", hands.check(effect.model))
    if failure is not None:
        hands.log.warning("runtime_failed", model=effect.model, runtime="", reason=failure.reason)
    await hands.tell(partial(hands.agent.on_looked, effect.model, failure))


async def _on_started(hands: Hands, name: RuntimeId, runtime: Runtime, job: Job) -> None:
    hands.runtimes[name] = runtime
    if job.stopped:
        await _end(hands, name, runtime, hands.stop_grace_s)
        return
    hands.log.info("runtime_ready", runtime=name, backend=runtime.key.backend)
    hands.watches[name] = hands.tasks.create_task(_watch(hands, name, runtime))
    if runtime.states is not None:
        token_bytes, kin = runtime.states.token_bytes, _met(hands, runtime)
        await hands.tell(partial(hands.agent.on_states, name, token_bytes, kin=kin))
    await hands.tell(partial(hands.agent.on_loaded, name, key=runtime.key.name))
    hands.scales.weigh()


def _met(hands: Hands, runtime: Runtime) -> str:
    """Say what a runtime's files can be read by, and tell people what of earlier ones it cannot."""
    kin, unfit = hands.keeper.meet(runtime)
    for one in unfit:
        differs = ", ".join(one.differs)
        hands.log.info("states_unfit", model=runtime.key.model, states=one.states, differs=differs)
    return kin


def _on_progress(hands: Hands, name: RuntimeId, progress: float) -> None:
    """Backends call this while they load, as often as they like."""
    hands.hint(partial(hands.agent.on_load_progress, name, progress))


async def _watch(hands: Hands, name: RuntimeId, runtime: Runtime) -> None:
    await runtime.died.wait()
    await _end(hands, name, runtime, 0.0)


async def _end(hands: Hands, name: RuntimeId, runtime: Runtime, grace_s: float) -> None:
    """Let go of a runtime and then tell the agent: another in its place finds nothing of it left.

    Whoever comes first, the watch or an Unload, does it, and only once.
    """
    if name in hands.ending or name not in hands.runtimes:
        return
    hands.ending.add(name)
    await _failure_of(hands, "unload", ended(runtime, grace_s, hands.force_s))
    hands.ending.remove(name)
    del hands.runtimes[name]
    watch = hands.watches.pop(name, None)
    if watch is not None and watch is not asyncio.current_task():
        # Of one that could not be ended nobody would ever hear that it has died.
        watch.cancel()
    hands.log.info("runtime_gone", runtime=name)
    await hands.tell(partial(hands.agent.on_runtime_gone, name))


async def _prepare(hands: Hands, effect: Prepare, job: Job) -> None:
    done: list[Prepared] = []

    async def work() -> None:
        cold = effect.runtime == VOCABULARY
        ready = hands.count if cold else partial(vectors.prepared, _runtime(hands, effect.runtime))
        done.append(await ready(effect.request, effect.tenant))

    failure = await _failure_of(hands, "prepare", job.stoppable(work))
    del hands.jobs[effect.key]
    agent, key = hands.agent, effect.key
    if job.stopped:
        await hands.tell(partial(agent.on_closed, key, None))
    elif failure is not None:
        await hands.tell(partial(agent.on_prepare_failed, key, failure))
    else:
        await hands.tell(partial(agent.on_prepared, key, done[0]))


async def _run(hands: Hands, effect: Run, job: Job) -> None:
    failure = await _failure_of(hands, "stream", _stream(hands, effect, job))
    await hands.tell(partial(_closed, hands, effect, failure))


def _closed(hands: Hands, effect: Run, failure: Failure | None, now: float) -> list[Effect]:
    """A run counts as work until the agent hears of its end, so that it hears of that only once.

    It may run the same stream again, and a second report would be taken for the end of that.
    """
    del hands.jobs[effect.key]
    return hands.agent.on_closed(effect.key, failure, now)


async def _stream(hands: Hands, effect: Run, job: Job) -> None:
    """Enter the backend's block, read, leave. Entering and reading can be stopped, leaving not."""
    entered: list[AsyncIterator[StreamEvent]] = []
    async with AsyncExitStack() as stack:

        async def enter() -> None:
            runtime = _runtime(hands, effect.runtime)
            block = vectors.opened(runtime, effect.prepared, effect.use)
            entered.append(await stack.enter_async_context(block))

        async def read() -> None:
            events = entered[0]
            if isinstance(events, Poured):
                await events.pour(partial(_take, hands, effect.key, job))
                return
            async for event in events:
                await hands.tell(partial(hands.agent.on_event, effect.key, event))
                # The agent looks before the next event is read. A backend that has a burst at hand
                # would fill the inbox otherwise, ahead of everybody and of its own pause.
                await asyncio.sleep(0)
                if not job.go.is_set():
                    await job.go.wait()

        await job.stoppable(enter)
        await job.stoppable(read)


def _take(hands: Hands, key: StreamKey, job: Job, event: StreamEvent) -> Hold | None:
    """Have the agent hear an event now, where nothing else is before it, and otherwise in its turn.

    Either way it has heard this one before the next one is read, as when a stream is iterated.
    """
    report = partial(hands.agent.on_event, key, event)
    if not hands.at_once(report):
        return partial(_told, hands, job, report)
    return None if job.go.is_set() and not job.stopped else partial(_held, job)


async def _told(hands: Hands, job: Job, report: Report) -> None:
    await hands.tell(report)
    await _held(job)


async def _held(job: Job) -> None:
    """Wait until it may go on; a stop ends it here, also one that its own event has led to."""
    await asyncio.sleep(0)
    await job.go.wait()


async def _park(hands: Hands, effect: Park) -> None:
    saved: list[SavedState] = []

    async def work() -> None:
        saved.append(await hands.keeper.park(_runtime(hands, effect.runtime), effect))

    await _moved(hands, effect, work())
    outcome = saved[0] if saved else None
    await hands.tell(partial(hands.agent.on_parked, effect.runtime, effect.session, outcome))


async def _restore(hands: Hands, effect: Restore) -> None:
    async def work() -> None:
        await hands.keeper.restore(_runtime(hands, effect.runtime), effect)

    before = hands.keeper.quarantined
    ok = await _moved(hands, effect, work())
    await _tell_quarantined(hands, before)
    await hands.tell(partial(hands.agent.on_restored, effect, ok))


async def _demote(hands: Hands, effect: Demote) -> None:
    async def work() -> None:
        await hands.keeper.demote(effect)

    ok = await _moved(hands, effect, work())
    await hands.tell(partial(hands.agent.on_demoted, effect.session, ok))


async def _promote(hands: Hands, effect: Promote) -> None:
    before = hands.keeper.quarantined
    ok = await _moved(hands, effect, hands.keeper.promote(effect))
    await _tell_quarantined(hands, before)
    await hands.tell(partial(hands.agent.on_promoted, effect.session, ok))


async def _tell_quarantined(hands: Hands, before: int) -> None:
    if hands.keeper.quarantined != before:
        await hands.tell(partial(hands.agent.on_quarantined, hands.keeper.quarantined))


async def _moved(hands: Hands, effect: Move, work: Coroutine[object, object, None]) -> bool:
    """Whether it worked; whatever went wrong costs the cache alone, so it is only told."""
    what = type(effect).__name__.lower()
    failure = await _failure_of(hands, what, work)
    if failure is not None and failure.reason != "runtime_died":
        hands.log.warning("session_not_moved", move=what, reason=failure.reason)
    return failure is None


async def _failure_of(hands: Hands, where: str, work: Awaitable[None]) -> Failure | None:
    """Do something of a backend's; say how it failed, if it did."""
    try:
        await work
    except RoostError as error:
        return error.failure
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        # A defect in one backend is not the node's end, whatever it raises. A cancel is none if
        # somebody has asked for it.
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        # Only its name: the text may quote what a client sent.
        hands.log.error("internal_error", where=where, error=type(error).__name__)  # noqa: TRY400
        return LOADER_DEFECT if where == "load" else DEFECT
    return None


def _runtime(hands: Hands, name: RuntimeId) -> Runtime:
    runtime = hands.runtimes.get(name)
    if runtime is None:
        raise RoostError(GONE)
    return runtime
