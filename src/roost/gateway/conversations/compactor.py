"""SHELL: pasts made shorter: carries out what `fleet/conversations/compaction` asks for.

A model's summary is a request like any other, of the lowest class and the conversation's tenant,
and is read by nobody but us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from roost.core.conversation import KeptConversation
from roost.core.ids import ConversationKey
from roost.core.request import GenerateRequest, Sampling, Terms
from roost.fleet.conversations.compaction import Asked, Compaction
from roost.fleet.conversations.compaction_effects import (
    CompactionEffect,
    GiveUp,
    Go,
    Keep,
    Stop,
    Summarise,
    Told,
    Undo,
)
from roost.fleet.streams.relay import Relay, RelaySettings
from roost.gateway.alarm import Alarm
from roost.gateway.request_ids import RequestIds
from roost.gateway.turns.turn import Turn

if TYPE_CHECKING:
    from roost.core.compacted import Trigger
    from roost.core.ids import ModelId, RequestId
    from roost.fleet.conversations.compacting import CompactionSettings
    from roost.fleet.streams.relay_effects import RelayEffect
    from roost.gateway.conversations.archive import Archive
    from roost.gateway.mind import Mind

DIALECT = "compaction"
Shortened: TypeAlias = Callable[[KeptConversation | None], None]
"""Told from which past to go on; None where no past is short enough."""
Label: TypeAlias = Callable[[ConversationKey], str]
"""What the log calls a conversation."""


class Stenographer:
    """Reads a summary to its end; `done` is told it, or None where it is not complete."""

    def __init__(self, done: Callable[[str | None], None]) -> None:
        self._done = done

    @property
    def blocked(self) -> bool:
        """It keeps up."""
        return False

    def carry_out(self, turn: Turn, effect: RelayEffect) -> None:
        """Write nothing anywhere: the turn has its own text."""

    def over(self, turn: Turn) -> None:
        """That is all."""
        self._done(turn.answer if turn.relay.outcome == "complete" else None)


class Compactor:
    """All compactions of one gateway; `close` stops the clock."""

    def __init__(
        self, mind: Mind, archive: Archive, settings: CompactionSettings, label: Label
    ) -> None:
        self._mind = mind
        self._archive = archive
        self._label = label
        self.settings = settings
        self._machine = Compaction(settings)
        self._new_id = RequestIds()
        self._done: dict[RequestId, Shortened] = {}
        self._unkept: set[RequestId] = set()
        self._summaries: dict[RequestId, Turn] = {}
        self._works: dict[ConversationKey, RequestId] = {}
        self._alarm = Alarm(asyncio.get_running_loop(), self._tick)

    def ctx(self, model: ModelId) -> int:
        """The largest context in which a model is offered; 0 where nobody offers it."""
        offers = self._mind.coordinator.models()
        return max((offer.ctx for offer in offers if offer.model == model), default=0)

    def turn(self, job: RequestId, asked: Asked, done: Shortened) -> None:
        """Find out from which past a turn goes on; `over` when the turn is."""
        self._done[job] = done
        self._perform(self._machine.on_turn(job, asked, self._mind.now_s))

    def work(self, job: RequestId, asked: Asked, trigger: Trigger, done: Shortened) -> None:
        """Make a past shorter that nobody goes on from now; its lock is held for this `job`."""

        def over(kept: KeptConversation | None) -> None:
            del self._works[asked.key]
            self.over(job)
            done(kept)

        self._works[asked.key] = job
        self._done[job] = over
        self._perform(self._machine.on_work(job, asked, trigger, self._mind.now_s))

    def hurry(self, key: ConversationKey) -> None:
        """A turn waits for work on its conversation, if there is any: that goes without a model."""
        job = self._works.get(key)
        if job is not None:
            self._perform(self._machine.on_hurry(job, self._mind.now_s))

    def is_ahead(self, model: ModelId, tokens: int) -> bool:
        """Whether a past of so many tokens is to be made shorter before its next turn comes."""
        return self._machine.is_ahead(tokens, lambda: self.ctx(model))

    def too_long(self, job: RequestId) -> None:
        """A node has refused a turn's prompt for its length."""
        self._perform(self._machine.on_too_long(job, self._mind.now_s))

    def over(self, job: RequestId) -> None:
        """A turn is over, however it ended."""
        self._done.pop(job, None)
        self._unkept.discard(job)
        self._perform(self._machine.on_over(job))

    def is_unkept(self, job: RequestId) -> bool:
        """Whether a turn goes on from a shorter past of which nobody will know afterwards."""
        return job in self._unkept

    def relief(self, kv_bytes: Callable[[], int]) -> int:
        """How many idle conversations are to become smaller, at so many bytes of KV in all."""
        return self._machine.relief(kv_bytes()) if self.settings.kv_max_bytes else 0

    def close(self) -> None:
        """Stop the clock."""
        self._alarm.end()

    def _perform(self, effects: list[CompactionEffect]) -> None:
        for effect in effects:
            match effect:
                case Summarise():
                    self._summarise(effect)
                case Stop(job):
                    self._stop(job)
                case Keep(job, key, summary, tokens):
                    self._archive.summarise(key, summary, tokens, partial(self._noted, job))
                case Undo(_, key, summary, tokens):
                    self._archive.summarise(key, summary, tokens)
                case Told():
                    self._tell(effect)
                case Go(job, kept):
                    self._done[job](kept)
                case GiveUp(job):
                    self._done[job](None)
        self._alarm.set(self._machine.next_tick())

    def _noted(self, job: RequestId, is_kept: bool) -> None:  # noqa: FBT001 - a callback
        # A job may keep twice, and the last time counts.
        if is_kept:
            self._unkept.discard(job)
        elif job in self._done:
            self._unkept.add(job)

    def _summarise(self, effect: Summarise) -> None:
        prompt = effect.prompt
        terms = Terms(
            self._new_id(),
            effect.tenant,
            timeout_s=effect.timeout_s,
            prompt_bytes=sum(len(message.content.encode()) for message in prompt.messages),
            max_tokens=effect.max_tokens,
            class_="bulk",
            needs="turns",
        )
        request = GenerateRequest(
            effect.model, prompt, max_tokens=effect.max_tokens, sampling=Sampling(temperature=0.0)
        )
        relay = Relay(RelaySettings(), streamed=False, now=self._mind.now_s)
        reader = Stenographer(partial(self._written, effect.job))
        turn = Turn(request, terms, relay, reader, DIALECT)
        turn.keeper = reader
        self._summaries[effect.job] = turn
        self._mind.arrive(turn)

    def _written(self, job: RequestId, text: str | None) -> None:
        if self._summaries.pop(job, None) is not None:
            self._perform(self._machine.on_summary(job, text, self._mind.now_s))

    def _stop(self, job: RequestId) -> None:
        # Its own time may have run out at this very moment.
        turn = self._summaries.pop(job, None)
        if turn is not None:
            turn.on_gone()

    def _tell(self, told: Told) -> None:
        mind = self._mind
        mind.metrics("roost_compactions_total", told.trigger, told.outcome).inc()
        mind.metrics("roost_compaction_seconds").observe(told.took_s)
        mind.metrics("roost_compaction_dropped_tokens_total").inc(told.dropped_tokens)
        facts = {
            "job": told.job,
            "session": self._label(told.key),
            "trigger": told.trigger,
            "outcome": told.outcome,
            "verdict": told.verdict,
            "dropped_tokens": told.dropped_tokens,
            "latency_ms": round(told.took_s * 1000),
        }
        if told.outcome == "still_too_long":
            mind.log.info("compaction_failure", **facts)
        else:
            mind.log.info("compaction_success", **facts)

    def _tick(self) -> None:
        self._perform(self._machine.on_tick(self._mind.now_s))
