"""MACHINE: which pasts become shorter, when, and by whom; one job for each turn or piece of work.

    on_turn ──▶ (Summarise ──▶ on_summary) ──▶ Keep, Go
                                                   │ the node says it is too long
                        GiveUp ◀── ladder's end ◀──┴──▶ a rung lower ──▶ Keep, Go

Whoever has a job holds its conversation's turn lock: a turn has it by being the one that runs, work
in the background takes it like a turn. So no turn runs while a past changes, and none is changed
twice at once. A job that ends in the middle, for whatever reason, has changed nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from roost.core.compacted import Trigger
from roost.core.conversation import KeptConversation
from roost.core.ids import ConversationKey, ModelId, RequestId, TenantId
from roost.fleet.conversations import compacting
from roost.fleet.conversations.compacting import CompactionSettings, Draft, Rung
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
from roost.fleet.deadlines import Deadlines


class Asked(msgspec.Struct, frozen=True):
    """Whose past it is, and what is to follow it.

    The turn's words have `words_bytes`, its answer up to `answer_tokens`, None for as many as fit.
    `ctx` is the largest context there is for the model, 0 where nobody knows. `is_gone` says that
    the past has to be computed again in any case.
    """

    key: ConversationKey
    tenant: TenantId
    model: ModelId
    kept: KeptConversation
    words_bytes: int = 0
    answer_tokens: int | None = 0
    ctx: int = 0
    is_gone: bool = False


@dataclass(slots=True)
class _Job:
    """One past on its way; `ladder` are the rungs that have not been tried."""

    asked: Asked
    kept: KeptConversation
    began_s: float
    trigger: Trigger = "proactive"
    ladder: list[Rung] = field(default_factory=list)
    room_tokens: int = 0
    planned: Draft | None = None
    verdict: str = ""
    was_refused: bool = False
    is_summarising: bool = False


class Compaction:
    """All compactions of one gateway."""

    def __init__(self, settings: CompactionSettings) -> None:
        self._settings = settings
        self._jobs: dict[RequestId, _Job] = {}
        self._patience: Deadlines[RequestId] = Deadlines()
        self._compacted_s: OrderedDict[ConversationKey, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._jobs)

    def busy(self, job: RequestId) -> bool:
        """Whether this job waits for a summary."""
        one = self._jobs.get(job)
        return one is not None and one.is_summarising

    def relief(self, kv_bytes: int) -> int:
        """How many conversations are to be compacted now that KV takes so many bytes in all.

        None while those of the last time are still at work.
        """
        most = self._settings.kv_max_bytes
        if self._is_off or not 0 < most < kv_bytes:
            return 0
        relieving = any(one.trigger == "kv_pressure" for one in self._jobs.values())
        return 0 if relieving else self._settings.batch

    def is_ahead(self, tokens: int, ctx: Callable[[], int]) -> bool:
        """Whether a past of so many tokens is to become shorter before anybody goes on from it.

        What takes no time is done when it is needed; a model's summary is worth to be begun early.
        """
        if self._settings.summariser != "model":
            return False
        least = int(self._settings.threshold * self._settings.budget_tokens)
        return tokens >= least or 0 < int(self._settings.threshold * ctx()) <= tokens

    # --- events

    def on_turn(self, job: RequestId, asked: Asked, now: float) -> list[CompactionEffect]:
        """A turn's time has come: it goes on, perhaps from a shorter past."""
        assert job not in self._jobs, "a turn begins once"
        self._forget(now)
        one = _Job(asked, asked.kept, now)
        self._jobs[job] = one
        trigger = self._due(one)
        if trigger is None:
            return [Go(job, one.kept)]
        return self._start(job, trigger, now)

    def on_work(
        self, job: RequestId, asked: Asked, trigger: Trigger, now: float
    ) -> list[CompactionEffect]:
        """Compact a conversation that nobody talks in, whose lock was taken for it.

        Only where KV is scarce before it is due: a past keeps its words as long as it may.
        """
        assert job not in self._jobs, "a piece of work begins once"
        self._forget(now)
        one = _Job(asked, asked.kept, now, trigger)
        self._jobs[job] = one
        early = trigger != "kv_pressure" and not self._is_due(asked)
        early = early or (trigger == "proactive" and asked.key in self._compacted_s)
        if self._is_off or early or not compacting.has_head(one.kept, self._settings.tail_pairs):
            return [Go(job, one.kept)]
        return self._start(job, trigger, now)

    def on_too_long(self, job: RequestId, now: float) -> list[CompactionEffect]:
        """A node refused this turn's prompt: try a rung lower, or leave it at that."""
        one = self._jobs.get(job)
        if one is None or self._is_off or not one.kept.turns:
            return [GiveUp(job)]
        assert not one.is_summarising, "what nobody has sent no node can refuse"
        refused = round(compacting.GAIN * compacting.tokens_of(one.kept))
        if one.was_refused:
            one.room_tokens = min(one.room_tokens, refused)
            return self._descend(job, now)
        one.was_refused = True
        return self._start(job, "session_full", now, refused)

    def on_summary(self, job: RequestId, text: str | None, now: float) -> list[CompactionEffect]:
        """The model has written a summary, or failed to: None."""
        one = self._jobs.get(job)
        if one is None or not one.is_summarising:
            return []
        one.is_summarising = False
        self._patience.drop(job)
        return self._judged(job, text, now)

    def on_hurry(self, job: RequestId, now: float) -> list[CompactionEffect]:
        """Somebody waits for this work: a summary that is there at once has to do."""
        one = self._jobs.get(job)
        if one is None or not one.is_summarising:
            return []
        one.is_summarising = False
        self._patience.drop(job)
        return [Stop(job), *self._judged(job, None, now)]

    def on_over(self, job: RequestId) -> list[CompactionEffect]:
        """Whoever the job was for is gone, or has what it wanted."""
        one = self._jobs.pop(job, None)
        self._patience.drop(job)
        return [Stop(job)] if one is not None and one.is_summarising else []

    def on_tick(self, now: float) -> list[CompactionEffect]:
        """Time passed; due when `next_tick` says so, and harmless at any other time."""
        out: list[CompactionEffect] = []
        for job in self._patience.due(now):
            out += self.on_hurry(job, now)
        return out

    def next_tick(self) -> float | None:
        """When `on_tick` has something to do."""
        return self._patience.next_s()

    # --- what is due

    @property
    def _is_off(self) -> bool:
        return self._settings.summariser == "off"

    def _due(self, one: _Job) -> Trigger | None:
        """Why this turn's past has to be shorter, if it has to."""
        asked, kept = one.asked, one.kept
        if self._is_off or not kept.turns:
            return None
        tokens = compacting.tokens_of(kept)
        if asked.ctx and tokens + self._words(asked) + self._answer(asked) > asked.ctx:
            return "session_full"
        if not self._is_due(asked) or not compacting.has_head(kept, self._settings.tail_pairs):
            return None
        if asked.is_gone:
            return "session_gone"
        return None if asked.key in self._compacted_s else "proactive"

    def _is_due(self, asked: Asked) -> bool:
        """Whether a past has reached its share of the budget."""
        return compacting.tokens_of(asked.kept) >= self._share(asked)

    def _limit(self, asked: Asked) -> int:
        budget = self._settings.budget_tokens
        return min(budget, asked.ctx) if asked.ctx else budget

    def _share(self, asked: Asked) -> int:
        """How long a past may become before it is compacted, in tokens."""
        return int(self._settings.threshold * self._limit(asked))

    def _answer(self, asked: Asked) -> int:
        """How much of the answer has to fit: a fair piece of it, since it may end early."""
        fair = self._limit(asked) - self._share(asked)
        return fair if asked.answer_tokens is None else min(fair, asked.answer_tokens)

    def _words(self, asked: Asked) -> int:
        if not asked.words_bytes:
            return 0
        rate = compacting.rate_of(asked.kept)
        return round(rate.per_byte * asked.words_bytes) + compacting.MESSAGE_TOKENS

    # --- the ladder

    def _start(
        self, job: RequestId, trigger: Trigger, now: float, most_tokens: int | None = None
    ) -> list[CompactionEffect]:
        one, settings = self._jobs[job], self._settings
        one.trigger, one.began_s = trigger, now
        room = self._share(one.asked)
        if one.asked.ctx:
            room = min(room, one.asked.ctx - self._answer(one.asked))
        one.room_tokens = room - self._words(one.asked)
        if most_tokens is not None:
            one.room_tokens = min(one.room_tokens, most_tokens)
        ladder = compacting.rungs(settings.tail_pairs)
        if trigger != "session_full":
            # What would be served as it is does not pay for being shorter with its own words.
            ladder = tuple(rung for rung in ladder if rung.summarised and rung.pairs)
        one.ladder = list(ladder)
        return self._descend(job, now)

    def _descend(self, job: RequestId, now: float) -> list[CompactionEffect]:
        """Take the next rung that fits."""
        one, most = self._jobs[job], self._settings.summary_max_tokens
        while one.ladder:
            rung = one.ladder.pop(0)
            planned = compacting.draft(one.kept, rung, one.room_tokens, most)
            if planned is None:
                continue
            one.planned, one.verdict = planned, ""
            if self._asks_model(one, planned):
                return self._summarise(job, now)
            effects = self._finish(job, compacting.extract(one.kept, planned), now)
            if effects:
                return effects
        return self._at_the_end(job, now)

    def _at_the_end(self, job: RequestId, now: float) -> list[CompactionEffect]:
        one = self._jobs[job]
        why = one.trigger, "still_too_long", one.verdict
        told = Told(job, one.asked.key, *why, 0, now - one.began_s)
        if not one.was_refused:
            return [told, Go(job, one.kept)]
        # What was left out on the way down was left out for nothing.
        return [*self._undone(job), told, GiveUp(job)]

    def _undone(self, job: RequestId) -> list[CompactionEffect]:
        one = self._jobs[job]
        if one.kept is one.asked.kept:
            return []
        one.kept = one.asked.kept
        self._compacted_s.pop(one.asked.key, None)
        return [Undo(job, one.asked.key, one.kept.summary, one.kept.pin.tokens)]

    def _asks_model(self, one: _Job, planned: Draft) -> bool:
        """Whether a model is to write: once for a job, and only what it can read."""
        settings, ctx = self._settings, one.asked.ctx
        first = Rung(settings.tail_pairs, summarised=True)
        if settings.summariser != "model" or planned.rung != first:
            return False
        if one.kept is not one.asked.kept:
            return False
        reading = compacting.rate_of(one.kept).of(compacting.request_for(planned).messages)
        return not ctx or reading + planned.summary_tokens <= ctx

    def _summarise(self, job: RequestId, now: float) -> list[CompactionEffect]:
        one, asked = self._jobs[job], self._jobs[job].asked
        assert one.planned is not None, "a summary is planned before it is asked for"
        one.is_summarising = True
        wait_s = self._settings.summary_wait_s
        self._patience.set(job, now + wait_s)
        prompt, most = compacting.request_for(one.planned), one.planned.summary_tokens
        return [Summarise(job, asked.tenant, asked.model, prompt, most, wait_s)]

    def _judged(self, job: RequestId, text: str | None, now: float) -> list[CompactionEffect]:
        """Take the model's summary if it is good, and the other one if it is not."""
        one = self._jobs[job]
        assert one.planned is not None, "a summary is planned before it is judged"
        extracted = compacting.extract(one.kept, one.planned)
        written = compacting.polished(text or "", one.kept, one.planned)
        one.verdict = compacting.judge(written, extracted, self._settings.kept_least)
        chosen = written if one.verdict == "good" else extracted
        return self._finish(job, chosen, now) or self._descend(job, now)

    def _finish(self, job: RequestId, text: str, now: float) -> list[CompactionEffect]:
        """Go on from a past with this summary; nothing where that would not be shorter."""
        one = self._jobs[job]
        assert one.planned is not None, "a rung is chosen before it is taken"
        made = compacting.compacted(one.kept, one.planned, text, one.trigger)
        if made is None or made.summary is None:
            return []
        one.kept = made
        self._compacted_s[one.asked.key] = now
        self._compacted_s.move_to_end(one.asked.key)
        outcome = "model" if one.verdict == "good" else "extractive" if text else "cut"
        dropped = made.summary.dropped_tokens
        why = one.trigger, outcome, one.verdict
        told = Told(job, one.asked.key, *why, dropped, now - one.began_s)
        return [Keep(job, one.asked.key, made.summary, made.pin.tokens), told, Go(job, made)]

    def _forget(self, now: float) -> None:
        """Let go of those that may be compacted again."""
        for key in list(self._old(now)):
            del self._compacted_s[key]

    def _old(self, now: float) -> Iterator[ConversationKey]:
        for key, when_s in self._compacted_s.items():
            if now < when_s + self._settings.debounce_s:
                return
            yield key
