"""SHELL: what a worker API does: prefill, decode, list and remove sessions, over the node's link.

A prefill is a request for one token, which nobody gets: with it the prompt is in the slot, and the
decode that follows computes its last token again. So a slot is held while something is computed and
not while a coordinator makes up its mind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Usage
from roost.core.ids import ModelId, TenantId
from roost.core.request import ChatPrompt, Continuation, GenerateRequest, Sampling
from roost.core.snapshots import ModelOffer
from roost.core.worker import WorkerBeat, WorkerHealth, WorkerModel
from roost.dialects.system1.worker import (
    DecodeAsked,
    Denial,
    PrefillAsked,
    Prefilled,
    SessionLine,
    Totals,
)
from roost.errors import Failure, RoostError, fail
from roost.node.worker.link import Call, WorkerLink
from roost.node.worker.table import WorkerSession, WorkerTable
from roost.observe.logs import Log

GONE = Failure("session_gone", "The session was removed or replaced.")
CANCELLED = Failure("cancelled", "The client left.")


class DeskSettings(msgspec.Struct, frozen=True):
    """Times of a worker API: for a busy session to become idle, and between two sweeps."""

    busy_wait_s: float = 5.0
    sweep_s: float = 60.0


class DeniedError(Exception):
    """The worker does not do it."""

    def __init__(self, denial: Denial) -> None:
        super().__init__(denial)
        self.denial: Denial = denial


class WorkerDesk:
    """Serves one node's sessions; `run` is its life. `forget` lets the node drop a tenant's KV."""

    def __init__(
        self,
        table: WorkerTable,
        link: WorkerLink,
        forget: Callable[[TenantId], Awaitable[None]],
        settings: DeskSettings,
        log: Log,
    ) -> None:
        self._table = table
        self._link = link
        self._forget = forget
        self._settings = settings
        self._log = log
        self._clock = asyncio.get_running_loop().time
        self._calls: dict[int, Call] = {}
        self._settled = asyncio.Event()

    async def run(self) -> None:
        """Keep the link, and end sessions whose time is over, until the node leaves."""
        async with asyncio.TaskGroup() as group:
            sweeping = group.create_task(self._sweep())
            await self._link.run()
            sweeping.cancel()

    async def ready(self) -> None:
        """Wait until the node has said what it has."""
        await self._link.up.wait()

    async def prefill(self, owner: TenantId, asked: PrefillAsked) -> Prefilled:
        """Put a turn into a session; raises `DeniedError` or `RoostError`.

        Whatever it raises, a session that was there before is as it was.
        """
        await self._link.up.wait()
        try:
            session = await self._begin(lambda now: self._begin_prefill(owner, asked, now))
            try:
                return await self._prefill(session, asked)
            finally:
                await self._settle(session)
        except DeniedError as error:
            self._denied(asked.session, "prefill", error)
            raise

    @asynccontextmanager
    async def decode(
        self, owner: TenantId, asked: DecodeAsked
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Have a session answer: its deltas and one end. Leaving the block is cancellation.

        Raises `DeniedError` or `RoostError` while nothing has been said.
        """
        table = self._table
        try:
            session = await self._begin(
                lambda now: table.decode(owner, asked.session, asked.max_tokens, now)
            )
        except DeniedError as error:
            self._denied(asked.session, "decode", error)
            raise
        before, began_s = session.tokens, self._clock()
        try:
            yield self._decode(session, asked)
        finally:
            call = self._calls.get(session.number)
            await self._settle(session)
            self._log.info(
                "worker_decoded",
                **_told(session, call),
                said=session.tokens - before,
                end=session.answer_state,
                seconds=round(self._clock() - began_s, 3),
            )

    async def remove(self, owner: TenantId, name: str) -> bool:
        """End a session, whatever it is doing; False where there is none."""
        session = self._table.remove(owner, name)
        if session is None:
            return False
        self._stop(session)
        await self._clear()
        return True

    def lines(self, owner: TenantId) -> list[SessionLine]:
        """An owner's sessions."""
        return self._table.lines(owner, self._clock())

    def totals(self) -> Totals:
        """Everybody's sessions together."""
        return self._table.totals()

    def beat(self, who: WorkerBeat) -> WorkerBeat:
        """Say how this worker is at this moment; `who` says who it is."""
        totals, most = self._table.totals(), self._table.limits.context_tokens
        offers = [one for one in self._link.offers.values() if one.usable]
        return msgspec.structs.replace(
            who,
            health=WorkerHealth(
                active_sessions=totals.active_sessions,
                kv_cache_bytes=totals.total_kv_cache_bytes,
                draining=self._link.draining,
            ),
            models=tuple(
                WorkerModel(one.model, min(one.ctx or most, most), one.kv_token_bytes)
                for one in offers
            ),
            slots=max((one.slots for one in offers), default=0),
        )

    @property
    def draining(self) -> bool:
        """Whether the node takes nothing new."""
        return self._link.draining

    def drain(self) -> None:
        """Begin nothing new; what runs goes on."""
        self._link.drain()

    # Sessions.

    async def _begin(self, begin: Callable[[float], WorkerSession | Denial]) -> WorkerSession:
        """Have a session to oneself, waiting for what it still does: a client that left, say."""
        until = self._clock() + self._settings.busy_wait_s
        while True:
            got = begin(self._clock())
            try:
                await self._clear()
            except BaseException:
                # Whoever asked has left, and settles nothing: it would be busy for ever.
                if isinstance(got, WorkerSession):
                    self._let_be(got)
                raise
            if isinstance(got, WorkerSession):
                return got
            if got != "session_busy":
                raise DeniedError(got)
            try:
                async with asyncio.timeout_at(until):
                    await self._settled.wait()
            except TimeoutError:
                raise DeniedError(got) from None

    def _begin_prefill(
        self, owner: TenantId, asked: PrefillAsked, now: float
    ) -> WorkerSession | Denial:
        if asked.mode == "continue":
            return self._table.resume(owner, asked.session, asked.model, now)
        offer = self._offer(asked.model)
        old = self._table.get(owner, asked.session)
        session = self._table.create(owner, asked.session, offer, now)
        if old is not None and old.gone:
            self._stop(old)
        return session

    def _offer(self, model: ModelId) -> ModelOffer:
        offer = self._link.offers.get(model)
        if offer is None:
            raise fail("model_not_found", "This worker has no model of this name.", param="model")
        return offer

    async def _settle(self, session: WorkerSession) -> None:
        """Let go of what a session was busy with, once the node has."""
        call = self._calls.pop(session.number, None)
        try:
            if call is not None:
                self._link.cancel(call)
                await call.released.wait()
        finally:
            self._let_be(session)
        await self._clear()

    def _denied(self, session: str, what: str, error: DeniedError) -> None:
        self._log.info("worker_denied", session=session, what=what, reason=error.denial)

    def _let_be(self, session: WorkerSession) -> None:
        self._table.settle(session, self._clock())
        self._settled.set()
        self._settled = asyncio.Event()

    def _stop(self, session: WorkerSession) -> None:
        call = self._calls.get(session.number)
        if call is not None:
            self._link.cancel(call)

    async def _clear(self) -> None:
        while (session := self._table.take_loose()) is not None:
            try:
                await self._forget(session.tenant)
            except BaseException:
                # Whoever was about to tell the node has left: the next one tells it.
                self._table.put_back(session)
                raise
            self._log.info("worker_session_gone", session=session.name, tokens=session.tokens)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._settings.sweep_s)
            self._table.sweep(self._clock())
            await self._clear()

    # Streams.

    async def _prefill(self, session: WorkerSession, asked: PrefillAsked) -> Prefilled:
        turns = session.turns(asked.prompt)
        request = GenerateRequest(
            session.model, ChatPrompt(turns), max_tokens=1, sampling=Sampling(temperature=0.0)
        )
        usage = Usage()
        try:
            async for event in self._events(session, request, self._table.budget(session)):
                if isinstance(event, Started):
                    usage = Usage(event.prompt_tokens, event.cached_tokens)
                elif isinstance(event, Failed):
                    raise RoostError(event.failure)
        except RoostError as error:
            if error.failure.reason == "session_gone":
                raise DeniedError("session_gone") from None
            if error.failure.reason == "context_length_exceeded":
                raise DeniedError(self._too_long(session)) from None
            raise
        total = usage.prompt_tokens
        added = self._table.prefilled(session, turns, total, asked.max_tokens)
        if added is None:
            raise DeniedError("session_gone")
        done = Prefilled(added, total, usage.cached_tokens)
        facts = {"mode": asked.mode, "added": added, "cached": done.cached_tokens}
        call = self._calls.get(session.number)
        self._log.info("worker_prefilled", **_told(session, call), **facts)
        return done

    def _too_long(self, session: WorkerSession) -> Denial:
        if session.messages:
            return "session_full"
        by_kv = self._table.is_bound_by_kv(session)
        return "session_kv_cache_too_large" if by_kv else "prompt_too_long"

    async def _decode(
        self, session: WorkerSession, asked: DecodeAsked
    ) -> AsyncIterator[StreamEvent]:
        if session.answer_state == "ended":
            yield Finished("stop", Usage(session.tokens))
            return
        async for event in self._events(session, _answer(session, asked), None):
            if isinstance(event, Delta):
                self._table.spoke(session, event.text, event.tokens, event.ids)
            elif isinstance(event, Finished) and event.reason == "stop":
                self._table.ended(session)
            yield event

    async def _events(
        self, session: WorkerSession, request: GenerateRequest, prompt_max: int | None
    ) -> AsyncIterator[StreamEvent]:
        """Run a request; raises what the node refuses it for, and `session_gone`."""
        call = self._link.open(request, session.tenant, prompt_max)
        self._calls[session.number] = call
        over = False
        while (item := await call.next()) is not None:
            if isinstance(item, Failure):
                raise RoostError(item)
            for event in item:
                over = isinstance(event, (Finished, Failed))
                yield event
            self._link.read_one(call)
        if not over:
            raise RoostError(GONE if session.gone else CANCELLED)


def _told(session: WorkerSession, call: Call | None) -> dict[str, str | int]:
    """What the log says of a session, and of what it asks of the node: never a word of it."""
    request = {} if call is None else {"request": call.request}
    return {"session": session.name, "model": session.model, "tokens": session.tokens, **request}


def _answer(session: WorkerSession, asked: DecodeAsked) -> GenerateRequest:
    """What has the model say the next tokens, behind those that it has said already."""
    said = session.answer_ids
    most = len(said) + min(asked.max_tokens, session.max_tokens)
    return GenerateRequest(
        session.model,
        ChatPrompt(session.messages),
        max_tokens=most,
        stop=asked.stop,
        sampling=asked.sampling,
        return_tokens=bool(session.digest),
        continuation=Continuation(said, session.digest) if said else None,
    )
