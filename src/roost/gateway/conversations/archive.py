"""SHELL: the journal of conversations, on the event loop: asked here, done by its thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from roost.core.conversation import ConversationView, KeptConversation, SaidTurn, Summary
from roost.errors import Failure
from roost.store.conversations.journal import GIVEN_UP

if TYPE_CHECKING:
    from roost.core.ids import ConversationKey, TenantId
    from roost.core.pin import Pin
    from roost.core.response import KeptResponse
    from roost.observe.logs import Log
    from roost.observe.metrics import Metrics
    from roost.store.conversations.journal import Job, Journal, Work

PRUNE_S = 3600.0
"""Between looks for conversations that are past their retention."""

Recalled: TypeAlias = "Callable[[KeptConversation | Failure | None], None]"
"""Told what is kept of a conversation, None where nothing is, or why that cannot be read."""


Whole: TypeAlias = "Callable[[tuple[TenantId, KeptConversation] | Failure | None], None]"
"""The same, with whose it is."""


Found: TypeAlias = "Callable[[object], None]"
"""Told what was found, None where nothing was, or a `Failure`."""


Kept: TypeAlias = "Callable[[Failure | None], None]"
"""Told once: None where something is kept or may count as that, or why it is not."""


class ArchiveSettings(msgspec.Struct, frozen=True):
    """How long what was said is kept, and how long the end of an answer waits for that.

    A commit that takes longer than `commit_wait_s` is not waited for, and happens later. If what is
    not known to be kept is to be `refused`, it is given up then, and the answer has failed; what
    the disk has begun with cannot be, so its end is waited for.
    """

    retention_s: float = 7 * 86_400.0
    commit_wait_s: float = 5.0
    refused: bool = False


class Archive:
    """What was said, for whoever goes on with it; `journal` None keeps nothing of it."""

    def __init__(
        self, journal: Journal | None, settings: ArchiveSettings, metrics: Metrics, log: Log
    ) -> None:
        self._journal = journal
        self._settings = settings
        self._metrics = metrics
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._degraded = False
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None
        self._prune()

    def recall(self, key: ConversationKey, done: Recalled, *, whole: bool = False) -> None:
        """Look up what was said; turns noted before this are in it.

        What a summary stands for is left out, unless the `whole` is wanted.
        """

        def told(result: object) -> None:
            assert result is None or isinstance(result, KeptConversation | Failure)
            done(result)

        if self._journal is None:
            done(None)
        else:
            self._ask(lambda shelves: shelves.recall(key, whole=whole), told)

    def recall_whole(self, key: ConversationKey, done: Whole) -> None:
        """Look up what was said and whose it is, for work that no request of theirs has begun."""

        def told(result: object) -> None:
            assert result is None or isinstance(result, tuple | Failure)
            done(result)

        if self._journal is None:
            done(None)
        else:
            self._ask(lambda shelves: shelves.recall_whole(key), told)

    def repin(self, key: ConversationKey, pin: Pin) -> None:
        """Note that a conversation's KV is elsewhere now."""
        if self._journal is not None:
            self._ask(lambda shelves: shelves.repin(key, pin), _nothing)

    def note(self, turn: SaidTurn, done: Kept | None) -> None:
        """Keep a turn; `done` is told once, when it is kept or cannot be waited for any more.

        None where nobody waits: then it is not given up either.
        """
        self._keep(lambda shelves: shelves.note(turn), done)

    def _keep(self, work: Work, done: Kept | None) -> None:
        if self._journal is None:
            if done is not None:
                done(None)
            return
        began_s = self._loop.time()
        waits = done

        def answer(failure: Failure | None) -> None:
            nonlocal waits
            if waits is not None:
                asker, waits = waits, None
                asker(failure)

        def told(result: object) -> None:
            patience.cancel()
            if result is GIVEN_UP:
                return
            self._metrics("roost_transcript_commit_seconds").observe(self._loop.time() - began_s)
            if isinstance(result, Failure):
                lose(result)
            else:
                answer(None)

        def lose(failure: Failure) -> None:
            self._metrics("roost_transcripts_lost_total").inc()
            self._log.error("transcript_lost", reason=failure.message)
            answer(failure)

        def late() -> None:
            if not self._settings.refused:
                answer(None)
            elif waits is not None and job.give_up():
                lose(GIVEN_UP)

        job = self._ask(work, told)
        patience = self._loop.call_later(self._settings.commit_wait_s, late)

    def summarise(
        self,
        key: ConversationKey,
        made: Summary | None,
        tokens: int,
        done: Callable[[bool], None] | None = None,
    ) -> None:
        """Note with what a model goes on; `done` is told whether that is kept.

        Where it is not, nothing is lost: it is made again another time.
        """
        told = _nothing if done is None else lambda result: done(result is True)
        if self._journal is not None:
            self._ask(lambda shelves: shelves.summarise(key, made, tokens), told)

    def forget(self, key: ConversationKey, done: Callable[[object], None]) -> None:
        """Remove what was said; told True, or a `Failure`, else there was nothing."""
        if self._journal is None:
            done(None)
        else:
            self._ask(lambda shelves: shelves.forget(key), done)

    def list(self, tenant: TenantId | None, done: Callable[[object], None]) -> None:
        """List a tenant's conversations, or everybody's: a tuple of views, or a `Failure`."""
        nobody: tuple[ConversationView, ...] = ()
        if self._journal is None:
            done(nobody)
        else:
            self._ask(lambda shelves: shelves.list(tenant), done)

    def keep_response(self, kept: KeptResponse, done: Kept) -> None:
        """Keep a response; `done` is told once, when it is kept or cannot be waited for any more.

        One that could not be kept is told of in log and metrics, as a turn is.
        """
        self._keep(lambda shelves: shelves.keep_response(kept), done)

    def response(self, tenant: TenantId, response_id: str, done: Found) -> None:
        """Look a tenant's response up."""
        self._look_up(lambda shelves: shelves.response(tenant, response_id), done)

    def said_before(self, tenant: TenantId, response_id: str, done: Found) -> None:
        """Look up all that was said up to the end of a response: a tuple of messages."""
        self._look_up(lambda shelves: shelves.said_before(tenant, response_id), done)

    def forget_response(self, tenant: TenantId, response_id: str, done: Found) -> None:
        """Remove a response; told True, or a `Failure`, else there was nothing."""
        self._look_up(lambda shelves: shelves.forget_response(tenant, response_id), done)

    @property
    def keeps(self) -> bool:
        """Whether anything is kept at all."""
        return self._journal is not None

    async def close(self) -> None:
        """Have everything written that was said, and end the thread."""
        if self._timer is not None:
            self._timer.cancel()
        if self._journal is not None:
            await asyncio.to_thread(self._journal.close)

    def _look_up(self, work: Work, done: Found) -> None:
        if self._journal is None:
            done(None)
        else:
            self._ask(work, done)

    def _ask(self, work: Work, told: Callable[[object], None]) -> Job:
        assert self._journal is not None, "callers look before they ask"

        def on_loop(result: object) -> None:
            self._look()
            told(result)

        def done(result: object) -> None:
            self._loop.call_soon_threadsafe(on_loop, result)

        return self._journal.submit(work, done)

    def _look(self) -> None:
        """Tell people when the disk stops or starts to take what was said."""
        journal = self._journal
        assert journal is not None, "somebody has answered"
        if journal.degraded != self._degraded:
            self._degraded = journal.degraded
            self._metrics("roost_transcripts_degraded").set(self._degraded)
            self._log.warning("transcripts_degraded", degraded=self._degraded)
        if journal.dropped > self._dropped:
            self._metrics("roost_transcripts_lost_total").inc(journal.dropped - self._dropped)
            self._dropped = journal.dropped

    def _prune(self) -> None:
        if self._journal is None:
            return
        before_unix_s = time.time() - self._settings.retention_s
        self._ask(lambda shelves: shelves.prune(before_unix_s), _nothing)
        self._timer = self._loop.call_later(PRUNE_S, self._prune)


def _nothing(_result: object) -> None:
    """Some work needs no answer."""
