"""SHELL: one worker of system 1 in the place of a node: a link in memory, and calls over HTTP.

The gateway sees a node like any other; what that does is decided in `translator`, and done here.
"""

from __future__ import annotations

import asyncio
import uuid
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from roost.core.ids import NodeId, StreamId
from roost.dialects.system1.worker_calls import (
    Denied,
    decode_body,
    prefill_body,
    read_denied,
    read_prefilled,
)
from roost.errors import Failure
from roost.gateway.alarm import Alarm
from roost.gateway.foreign.calls import (
    DENIAL_MAX_BYTES,
    HEALTH,
    PREFILL,
    SESSIONS,
    Answer,
    WorkerCalls,
)
from roost.gateway.foreign.effects import (
    Decode,
    Delete,
    Ended,
    ForeignEffect,
    HangUp,
    Heard,
    Lose,
    Lost,
    Note,
    Pause,
    Prefill,
    Resume,
    Say,
)
from roost.gateway.foreign.translator import ForeignSettings, Translator
from roost.gateway.front.defects import report
from roost.gateway.tasks import Tasks
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import NodeEnd
from roost.wire.messages import (
    VERSION,
    Cancel,
    Credit,
    FromGateway,
    FromNode,
    Goodbye,
    Hello,
    Open,
    Vacate,
    Welcome,
)
from roost.wire.pump import Pump, PumpSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.core.worker import WorkerBeat
    from roost.gateway.upstream.whole import Whole
    from roost.observe.logs import Log
    from roost.wire.memory import NodeConnection

REMOVED = (200, 204, 404)
HELD_MAX_BYTES = 4 * 1024 * 1024
DEFECT = Failure("internal", "A defect in the gateway has ended the link to this worker.")
LEFT = Failure("node_lost", "The worker has been silent for too long.")


class Guest:
    """Lives as long as its link; `run` is its life."""

    def __init__(
        self, beat: WorkerBeat, calls: WorkerCalls, settings: ForeignSettings, log: Log
    ) -> None:
        self._beat = beat
        self._calls = calls
        self._settings = settings
        self._log = log
        self._loop = asyncio.get_running_loop()
        instance = uuid.uuid4().hex
        self._translator = Translator(settings, instance, lambda: str(uuid.uuid4()))
        software = f"system-1 {beat.engine} {beat.version}".strip()
        hello = Hello(VERSION, NodeId(beat.worker), beat.worker, instance, software)
        self._end = NodeEnd(hello, LinkSettings(), self._loop.time())
        self._pump: Pump[FromNode, FromGateway] | None = None
        self._tasks = Tasks()
        self._prefills: dict[StreamId, asyncio.Task[None]] = {}
        self._answers: dict[StreamId, Answer] = {}
        self._alarm = Alarm(self._loop, self._tick)
        self._up = self._rests = False

    async def reachable(self) -> bool:
        """Whether the worker answers at its address."""
        told = await self._calls.ask("GET", HEALTH, None, self._settings.call_s, DENIAL_MAX_BYTES)
        return told is not None and told.status == 200

    async def run(self, connection: NodeConnection) -> Failure:
        """Be a node to the gateway until the worker is gone, or the gateway is; say why."""
        clock = self._loop.time
        self._pump = Pump(self._end, connection, self._deliver, PumpSettings(), clock)
        self._pump.start_with(self._end.start())
        try:
            return (await self._pump.run()).failure
        finally:
            self._up = False
            self._alarm.end()
            for answer in self._answers.values():
                answer.hang_up()
            await self._tasks.close()

    def close(self) -> None:
        """End every call."""
        self._calls.close()

    async def held(self, limit_s: float) -> Whole | None:
        """Ask what the worker holds; None where it does not say so in time."""
        return await self._calls.ask("GET", SESSIONS, None, limit_s, HELD_MAX_BYTES)

    def on_beat(self, beat: WorkerBeat) -> None:
        """The worker has said how it is."""
        self._beat, self._rests = beat, False
        self._report()

    def rest(self) -> None:
        """The worker is to get no new work."""
        self._rests = True
        self._report()

    def leave(self) -> None:
        """End the link: the worker is taken for dead."""
        self._lose(LEFT)

    def _report(self) -> None:
        translator = self._translator
        self._do(lambda _: translator.on_beat(self._beat, rests=self._rests))

    # From the gateway.

    async def _deliver(self, message: FromGateway) -> None:
        translator = self._translator
        match message:
            case Welcome():
                self._up = True
                self._report()
            case Open():
                self._do(partial(translator.on_open, message))
            case Credit(stream, messages):
                self._do(partial(translator.on_credit, stream, messages))
            case Cancel(stream):
                self._do(partial(translator.on_cancel, stream))
            case Vacate(vacant):
                self._do(lambda _: translator.on_vacate(vacant=vacant))
            case _:
                return  # its models are loaded: there is nothing to want

    # Effects.

    def _do(self, decide: Callable[[float], list[ForeignEffect]]) -> None:
        """Have the translator decide at this moment, and do what it asks for."""
        if not self._up:
            return
        try:
            for effect in decide(self._loop.time()):
                self._perform(effect)
        except Exception as error:  # noqa: BLE001 - a defect here costs one worker its link
            report(error)
            self._lose(DEFECT)
        self._alarm.set(self._translator.next_tick())

    def _perform(self, effect: ForeignEffect) -> None:
        match effect:
            case Say(message):
                self._say(message)
            case Prefill(stream):
                self._prefills[stream] = self._tasks.start(self._prefill(effect), "prefill")
            case Decode(stream):
                self._answers[stream] = answer = Answer(partial(self._hear, stream))
                self._tasks.start(self._decode(effect, answer), "decode")
            case HangUp(stream):
                self._hang_up(stream)
            case Pause(stream) | Resume(stream):
                self._pace(stream, reads=isinstance(effect, Resume))
            case Delete(session):
                self._tasks.start(self._delete(session), "delete")
            case Note():
                facts = msgspec.structs.asdict(effect)
                self._log.warning("stream_sequence_gap", worker=self._beat.worker, **facts)
            case Lose(failure):
                self._lose(failure)

    def _say(self, message: FromNode) -> None:
        assert self._pump is not None, "it says nothing before it runs"
        self._pump.post(message)

    def _lose(self, failure: Failure) -> None:
        if self._pump is not None:
            self._pump.post(Goodbye(failure, again=True))

    async def _prefill(self, effect: Prefill) -> None:
        asked = effect.session, effect.model, effect.mode
        body = prefill_body(asked, effect.prompt, effect.max_tokens)
        # The machine keeps the time; this is the net below it.
        limit_s = self._settings.prefill_s + self._settings.call_s
        reply = await self._calls.ask("POST", PREFILL, body, limit_s, DENIAL_MAX_BYTES)
        del self._prefills[effect.stream]
        self._hear(effect.stream, _result(reply))

    async def _decode(self, effect: Decode, answer: Answer) -> None:
        wishes = effect.sampling, effect.stop
        await self._calls.answer(decode_body(effect.session, effect.max_tokens, *wishes), answer)

    def _hear(self, stream: StreamId, heard: Heard) -> None:
        if isinstance(heard, (Denied, Ended, Lost)):
            self._answers.pop(stream, None)
        self._do(partial(self._translator.on_heard, stream, heard))

    async def _delete(self, session: str) -> None:
        path = f"{SESSIONS}/{quote(session, safe='')}"
        told = await self._calls.ask("DELETE", path, None, self._settings.call_s, DENIAL_MAX_BYTES)
        if told is None or told.status not in REMOVED:
            status = None if told is None else told.status
            self._log.warning(
                "worker_session_not_removed",
                worker=self._beat.worker,
                session=session,
                status=status,
            )
        self._do(partial(self._translator.on_deleted, session))

    def _pace(self, stream: StreamId, *, reads: bool) -> None:
        answer = self._answers.get(stream)
        if answer is not None:
            (answer.resume if reads else answer.pause)()

    def _hang_up(self, stream: StreamId) -> None:
        prefill = self._prefills.pop(stream, None)
        if prefill is not None:
            prefill.cancel()
        answer = self._answers.pop(stream, None)
        if answer is not None:
            answer.hang_up()

    # Time.

    def _tick(self) -> None:
        self._do(self._translator.on_tick)


def _result(reply: Whole | None) -> Heard:
    """What an answer to a prefill means."""
    if reply is None:
        return Lost()
    done = read_prefilled(reply.body) if reply.status == 200 else None
    status = 502 if reply.status == 200 else reply.status
    return done or read_denied(status, reply.body, reply.retry_after)
