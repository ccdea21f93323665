"""SHELL: a translator between a gateway's real end of a link and a worker that a test plays."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from roost.core.events import Failed, StreamEvent
from roost.core.ids import ModelId, NodeId, RequestId, StreamId, TenantId
from roost.core.request import ChatPrompt, GenerateRequest, Message, Prompt
from roost.core.worker import WorkerBeat, WorkerHealth, WorkerModel
from roost.dialects.system1.worker_calls import Denied, Over, Prefilled, Token
from roost.errors import Failure
from roost.gateway.foreign.effects import (
    Began,
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
    Pieces,
    Prefill,
    Resume,
    Say,
)
from roost.gateway.foreign.translator import ForeignSettings, Translator
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import GatewayEnd
from roost.wire.link_tables import Close
from roost.wire.messages import (
    VERSION,
    Cancel,
    Credit,
    Events,
    FromGateway,
    Hello,
    Open,
    Refused,
    Released,
)

MODEL = ModelId("m")
BEAT = WorkerBeat("w", "http://w", WorkerHealth(), (WorkerModel(MODEL, 512),), slots=2)
HI = (Message("user", "hi"),)
HELLO = (*HI, Message("assistant", "Hello"), Message("user", "more"))
SETTINGS = ForeignSettings(held_max=4)


@dataclass
class Memory:
    """What each session of the worker remembers, whatever the gateway believes."""

    said: dict[str, tuple[str, tuple[Message, ...]]] = field(default_factory=dict)
    answer: dict[str, str] = field(default_factory=dict)

    def check(self, asked: Prefill, tenant: str, messages: tuple[Message, ...]) -> None:
        """Hold a turn against the session it goes on with: its tenant, and every word."""
        if asked.mode == "continue":
            whose, said = self.said[asked.session]
            answer = Message("assistant", self.answer[asked.session])
            # A past that was handed over has its answer in it, and no other one.
            past = said if said[-1].role == "assistant" else (*said, answer)
            assert (whose, past) == (tenant, messages[:-1])

    def prefilled(self, session: str, tenant: str, messages: tuple[Message, ...]) -> None:
        """It knows this now, and has not answered."""
        self.said[session] = tenant, messages
        self.answer[session] = ""


@dataclass
class World:
    """A translator between a gateway's real end of a link and a worker that a test plays."""

    settings: ForeignSettings = SETTINGS
    now: float = 0.0
    calls: dict[StreamId, Prefill | Decode] = field(default_factory=dict)
    deleting: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    prefills: list[Prefill] = field(default_factory=list)
    events: dict[StreamId, list[StreamEvent]] = field(default_factory=dict)
    refused: dict[StreamId, Failure] = field(default_factory=dict)
    released: dict[StreamId, Released] = field(default_factory=dict)
    paused: set[StreamId] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)
    lost: Failure | None = None
    streams: int = 0
    memory: Memory = field(default_factory=Memory)
    asked: dict[StreamId, tuple[str, tuple[Message, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Bring the link up."""
        numbers = itertools.count(1)
        self.translator = Translator(self.settings, "life", lambda: f"s{next(numbers)}")
        self.gateway = GatewayEnd("g", LinkSettings(), self.now)
        self.gateway.on_message(Hello(VERSION, NodeId("w"), "w", "life", "t"), self.now)
        self.take(self.translator.on_beat(BEAT))

    def open(
        self,
        messages: tuple[Message, ...] = HI,
        *,
        credit: int = 64,
        require: bool = False,
        tenant: str = "t",
        prompt: Prompt | None = None,
        most: int = 5,
    ) -> StreamId:
        """Let the gateway open a stream."""
        self.streams += 1
        number = StreamId(self.streams)
        self.asked[number] = tenant, messages
        request = GenerateRequest(MODEL, prompt or ChatPrompt(messages), max_tokens=most)
        opened = Open(
            *(number, RequestId(f"r{number}"), TenantId(tenant), request, credit), require=require
        )
        self.say(opened)
        self.take(self.translator.on_open(opened, self.now))
        return number

    def say(self, message: FromGateway) -> None:
        """Let the gateway's end know what it has said."""
        self.gateway.say(message)

    def credit(self, number: StreamId, messages: int = 1) -> None:
        """Grant credit."""
        self.say(Credit(number, messages))
        self.take(self.translator.on_credit(number, messages, self.now))

    def cancel(self, number: StreamId) -> None:
        """Lose interest."""
        self.say(Cancel(number))
        self.take(self.translator.on_cancel(number, self.now))

    def hear(self, number: StreamId, *heard: Heard) -> None:
        """Let things come of a stream's call."""
        for one in heard:
            self._remember(number, one)
            if isinstance(one, (Prefilled, Denied, Ended, Lost)):
                del self.calls[number]
            self.take(self.translator.on_heard(number, one, self.now))

    def _remember(self, number: StreamId, heard: Heard) -> None:
        """Have the worker's session know what it has told."""
        session = self.calls[number].session if number in self.calls else ""
        if isinstance(heard, Prefilled):
            self.memory.prefilled(session, *self.asked[number])
        elif isinstance(heard, Pieces) and session:
            texts = [one.text for one in heard.said if isinstance(one, Token)]
            self.memory.answer[session] += "".join(texts)

    def remove(self) -> None:
        """Let the worker remove every session that it is asked to."""
        while self.deleting:
            session = self.deleting.pop(0)
            self.deleted.append(session)
            self.take(self.translator.on_deleted(session, self.now))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.take(self.translator.on_tick(self.now))

    def answer(self, number: StreamId, *texts: str, cached: int = 0) -> None:
        """Answer a stream completely."""
        self.hear(number, Prefilled(9, cached))
        said = [Token(text, seq) for seq, text in enumerate(texts)]
        self.hear(number, Began(), Pieces((*said, Over("stop"))), Ended())

    def take(self, effects: list[ForeignEffect]) -> None:
        """Perform effects; whatever is said goes to the gateway's end, which must not complain."""
        for effect in effects:
            match effect:
                case Say(message):
                    outputs = self.gateway.on_message(message, self.now)
                    assert not [one for one in outputs if isinstance(one, Close)], outputs
                    match message:
                        case Events(stream, _, events):
                            self.events.setdefault(stream, []).extend(events)
                        case Refused(stream, failure):
                            self.refused[stream] = failure
                        case Released(stream):
                            assert stream not in self.released
                            self.released[stream] = message
                case Prefill(stream):
                    assert stream not in self.calls
                    assert effect.session not in self.deleted + self.deleting
                    self.memory.check(effect, *self.asked[stream])
                    self.calls[stream] = effect
                    self.prefills.append(effect)
                case Decode(stream):
                    assert stream not in self.calls
                    self.calls[stream] = effect
                case HangUp(stream):
                    # What it had said beyond what was heard, nobody knows.
                    if isinstance(call := self.calls.pop(stream), Decode):
                        self.memory.answer[call.session] += " and more"
                case Pause(stream):
                    self.paused.add(stream)
                case Resume(stream):
                    self.paused.remove(stream)
                case Delete(session):
                    self.deleting.append(session)
                case Note():
                    self.notes.append(effect)
                case Lose(failure):
                    self.lost = failure

    def failure(self, number: StreamId) -> str:
        """How a stream has failed."""
        last = self.events[number][-1]
        assert isinstance(last, Failed)
        return last.failure.reason
