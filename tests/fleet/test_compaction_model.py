"""Compaction under any order of events, against naive books."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from roost.core.compacted import Trigger
from roost.core.conversation import KeptConversation
from roost.core.ids import ConversationKey, RequestId
from roost.core.request import Message
from roost.fleet.conversations import compacting
from roost.fleet.conversations.compacting import CompactionSettings
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
from tests.fleet.test_compaction import GOOD, MODEL, TENANT, A, B, kept


@dataclass
class Talk:
    """What a conversation is, in naive books."""

    kept: KeptConversation
    compacted_s: float | None = None
    job: RequestId | None = None
    words: list[tuple[str, str]] = field(default_factory=list)


class CompactionMachine(RuleBasedStateMachine):
    """Any order of turns, summaries, refusals, departures and ticks against naive books."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Compaction(
            CompactionSettings(summariser="model", budget_tokens=400, summary_max_tokens=80)
        )
        self.now = 0.0
        self.count = 0
        self.talks = {key: Talk(kept(0, 0)) for key in (A, B)}
        self.summarising: dict[RequestId, ConversationKey] = {}
        self.going: dict[RequestId, ConversationKey] = {}
        self.before: dict[RequestId, KeptConversation] = {}

    def perform(
        self, key: ConversationKey, job: RequestId, effects: list[CompactionEffect]
    ) -> None:
        """Carry out effects, and look whether they may be."""
        talk, ends = self.talks[key], 0
        for effect in effects:
            match effect:
                case Summarise():
                    assert effect.job == job
                    assert effect.max_tokens <= 80
                    self.summarising[job] = key
                    ends += 1
                case Stop():
                    self.summarising.pop(effect.job)
                case Keep():
                    assert effect.summary.covers >= talk.kept.covered
                    assert effect.tokens < compacting.tokens_of(talk.kept)
                    talk.kept = msgspec.structs.replace(
                        talk.kept,
                        summary=effect.summary,
                        pin=msgspec.structs.replace(talk.kept.pin, tokens=effect.tokens),
                    )
                case Undo():
                    before = self.before.pop(job)
                    assert (effect.summary, effect.tokens) == (before.summary, before.pin.tokens)
                    talk.kept, talk.compacted_s = before, None
                case Told():
                    self.told(talk, effect)
                case Go():
                    assert effect.kept == talk.kept
                    self.going[job] = key
                    ends += 1
                case GiveUp():
                    self.end(job)
                    ends += 1
        assert ends == 1, "every event about a job says how it goes on, once"

    def told(self, talk: Talk, effect: Told) -> None:
        """A proactive compaction keeps its distance from the one before."""
        if effect.outcome == "still_too_long":
            return
        if effect.trigger == "proactive" and talk.compacted_s is not None:
            assert self.now >= talk.compacted_s + 30.0
        talk.compacted_s = self.now

    def end(self, job: RequestId) -> None:
        """A turn is over without an answer."""
        key = self.going.pop(job)
        self.talks[key].job = None
        assert self.machine.on_over(job) == []

    def free(self) -> list[ConversationKey]:
        """Conversations nobody holds the lock of."""
        return [key for key, talk in self.talks.items() if talk.job is None]

    @precondition(lambda self: self.free())
    @rule(
        data=st.data(),
        ctx=st.sampled_from([0, 300, 4096]),
        is_gone=st.booleans(),
        trigger=st.sampled_from(["turn", "turn", "proactive", "worker_drain", "kv_pressure"]),
    )
    def begin(self, data: st.DataObject, ctx: int, is_gone: bool, trigger: str) -> None:
        """Somebody takes a lock: a turn, or work in the background."""
        key = data.draw(st.sampled_from(self.free()))
        self.count += 1
        job, talk = RequestId(f"r{self.count}"), self.talks[key]
        talk.job = job
        self.before[job] = talk.kept
        given = Asked(key, TENANT, MODEL, talk.kept, 20, 50, ctx, is_gone)
        if trigger == "turn":
            effects = self.machine.on_turn(job, given, self.now)
        else:
            background = cast("Trigger", trigger)
            effects = self.machine.on_work(job, given, background, self.now)
        self.perform(key, job, effects)

    @precondition(lambda self: self.going)
    @rule(data=st.data(), size=st.integers(1, 30), tokens=st.integers(20, 90))
    def answered(self, data: st.DataObject, size: int, tokens: int) -> None:
        """A turn is answered and its words are kept."""
        job = data.draw(st.sampled_from(sorted(self.going)))
        talk = self.talks[self.going[job]]
        said = f"I have {self.count} of them. " * size, "Indeed there are. " * size
        talk.words.append(said)
        talk.kept = msgspec.structs.replace(
            talk.kept,
            messages=(
                *talk.kept.messages,
                Message("user", said[0]),
                Message("assistant", said[1]),
            ),
            pin=msgspec.structs.replace(talk.kept.pin, tokens=talk.kept.pin.tokens + tokens),
        )
        self.end(job)

    @precondition(lambda self: self.going)
    @rule(data=st.data())
    def refused(self, data: st.DataObject) -> None:
        """A node says that the prompt is too long."""
        job = data.draw(st.sampled_from(sorted(self.going)))
        key = self.going[job]
        effects = self.machine.on_too_long(job, self.now)
        if not isinstance(effects[-1], GiveUp):
            del self.going[job]
        self.perform(key, job, effects)

    @precondition(lambda self: self.summarising)
    @rule(data=st.data(), text=st.sampled_from([None, "", GOOD, "I have 1, 2, 3. " * 30]))
    def summarised(self, data: st.DataObject, text: str | None) -> None:
        """The model has written something, or failed."""
        job = data.draw(st.sampled_from(sorted(self.summarising)))
        key = self.summarising.pop(job)
        self.perform(key, job, self.machine.on_summary(job, text, self.now))

    @precondition(lambda self: self.summarising)
    @rule(data=st.data())
    def hurried(self, data: st.DataObject) -> None:
        """Somebody waits for this."""
        job = data.draw(st.sampled_from(sorted(self.summarising)))
        self.perform(self.summarising[job], job, self.machine.on_hurry(job, self.now))

    @precondition(lambda self: self.summarising)
    @rule(data=st.data())
    def gone(self, data: st.DataObject) -> None:
        """A client leaves while its turn waits for a summary."""
        job = data.draw(st.sampled_from(sorted(self.summarising)))
        key = self.summarising.pop(job)
        before = self.talks[key].kept
        assert self.machine.on_over(job) == [Stop(job)]
        assert self.talks[key].kept == before
        self.talks[key].job = None

    @rule(seconds=st.sampled_from([0.1, 5.0, 40.0]))
    def tick(self, seconds: float) -> None:
        """Time passes; whoever waits for a summary does not wait longer than it may."""
        self.now += seconds
        effects = self.machine.on_tick(self.now)
        while effects:
            stop = effects.pop(0)
            assert isinstance(stop, Stop)
            key = self.summarising[stop.job]
            end = next(n for n, one in enumerate(effects) if isinstance(one, Go))
            self.perform(key, stop.job, [stop, *effects[: end + 1]])
            effects = effects[end + 1 :]
        due_s = self.machine.next_tick()
        assert due_s is None or due_s > self.now

    @invariant()
    def no_word_is_lost(self) -> None:
        """Whatever was summarised, all that was said is there, in order."""
        for talk in self.talks.values():
            said = [(a.content, b.content) for a, b in zip(*[iter(talk.kept.messages)] * 2)]  # noqa: B905
            assert said == talk.words

    @invariant()
    def jobs_are_those_with_a_lock(self) -> None:
        """The machine remembers exactly who is at work."""
        locked = [talk.job for talk in self.talks.values() if talk.job is not None]
        assert len(self.machine) == len(locked)
        assert sorted([*self.summarising, *self.going]) == sorted(locked)


CompactionMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestCompactionMachine = CompactionMachine.TestCase
