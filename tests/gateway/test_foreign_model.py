"""A worker of system 1 in the place of a node, whatever happens in whatever order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from roost.core.ids import StreamId
from roost.core.request import Message
from roost.dialects.system1.worker_calls import Denied, Over, Prefilled, Said, Token
from roost.errors import Failure
from roost.gateway.foreign.effects import (
    Began,
    Decode,
    Ended,
    Heard,
    Lost,
    Pieces,
    Prefill,
)
from roost.gateway.foreign.translator import ForeignSettings
from tests.gateway.foreign_kit import World

TEXTS = st.sampled_from(["hi", "ho"])


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens in whatever order, the gateway's end never finds a breach."""

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        """A worker has joined."""
        self.world = World(ForeignSettings(held_max=2, sessions_max=2, session_idle_s=100.0))
        self.seqs: dict[StreamId, int] = {}
        self.messages: dict[StreamId, tuple[Message, ...]] = {}
        self.pasts: list[tuple[Message, ...]] = []

    def live(self) -> list[StreamId]:
        """Streams that are not released."""
        numbers = [StreamId(n) for n in range(1, self.world.streams + 1)]
        return [number for number in numbers if number not in self.world.released]

    @precondition(lambda self: self.world.lost is None)
    @rule(
        text=TEXTS,
        credit=st.integers(0, 2),
        require=st.booleans(),
        past=st.integers(0, 3),
        tenant=st.sampled_from("tttu"),
    )
    def opens(self, text: str, credit: int, past: int, tenant: str, *, require: bool) -> None:
        """A new stream, that goes on with something or begins."""
        before = self.pasts[past] if past < len(self.pasts) else ()
        messages = (*before, Message("user", text))
        number = self.world.open(messages, credit=credit, require=require, tenant=tenant)
        self.messages[number] = messages

    @precondition(lambda self: self.world.lost is None and self.pasts)
    @rule(past=st.integers(0, 2))
    def hands_over(self, past: int) -> None:
        """A past is to be where its next turn will be."""
        messages = self.pasts[past % len(self.pasts)]
        self.messages[self.world.open(messages, most=1)] = messages

    @precondition(lambda self: self.world.lost is None)
    @rule()
    def vacates(self) -> None:
        """The worker is left, and then is not any more."""
        self.world.take(self.world.translator.on_vacate(vacant=True))
        self.world.take(self.world.translator.on_vacate(vacant=False))

    @precondition(lambda self: self.world.lost is None and self.pasts)
    @rule(text=TEXTS, past=st.integers(0, 2), tenant=st.sampled_from("ttu"))
    def goes_on(self, text: str, past: int, tenant: str) -> None:
        """A conversation goes on where it ended."""
        self.opens(text=text, credit=9, past=past, tenant=tenant, require=False)

    @precondition(lambda self: self.world.lost is None and self.world.calls)
    @rule(data=st.data())
    def hears(self, data: st.DataObject) -> None:
        """Something comes of a call."""
        world = self.world
        number = data.draw(st.sampled_from(sorted(world.calls)))
        call = world.calls[number]
        denials = st.sampled_from(
            [Denied(404), Denied(503), Denied(413), Denied(409, "session_full"), Denied(500)]
        )
        if isinstance(call, Prefill):
            results: st.SearchStrategy[Heard] = st.just(Prefilled(9, 0)) | denials
            world.hear(number, data.draw(results))
            self.seqs[number] = 0
            return
        if number in world.paused:
            return
        seq = self.seqs[number]
        said: list[Said] = [Token("x", seq), Token("x", seq), Token("x", seq + 1)]
        said += [Over("stop"), Failure("runtime_error", "no")]
        pieces = st.sampled_from([Pieces((one,)) for one in said])
        others: list[Heard] = [Began(), Ended(), Lost()]
        heard: Heard = data.draw(pieces | denials | st.sampled_from(others))
        if isinstance(heard, Pieces):
            world.hear(number, Began())
            self.seqs[number] += isinstance(heard.said[0], Token)
        text = "x" * self.seqs[number]
        if isinstance(heard, Ended):
            whole = (*self.messages[number], Message("assistant", text))
            self.pasts = [whole, *self.pasts][:3]
        world.hear(number, heard)

    @precondition(lambda self: self.world.lost is None and self.world.calls)
    @rule(data=st.data(), text=st.sampled_from(["", "x", "xx"]))
    def answers(self, data: st.DataObject, text: str) -> None:
        """A call goes well to its end, and the gateway takes all of it."""
        world = self.world
        number = data.draw(st.sampled_from(sorted(world.calls)))
        if isinstance(world.calls[number], Prefill):
            self.seqs[number] = 0
            world.hear(number, Prefilled(9, 0))
        if number not in world.released:
            world.credit(number, 5)
        if number in world.calls:
            before = self.seqs[number]
            said = tuple(Token("x", before + place) for place in range(len(text)))
            world.hear(number, Began(), Pieces((*said, Over("stop"))), Ended())
            answer = Message("assistant", "x" * (before + len(text)))
            self.pasts = [(*self.messages[number], answer), *self.pasts][:3]

    @precondition(lambda self: self.world.lost is None and self.live())
    @rule(data=st.data(), messages=st.integers(1, 3))
    def credits(self, data: st.DataObject, messages: int) -> None:
        """The gateway takes more."""
        self.world.credit(data.draw(st.sampled_from(self.live())), messages)

    @precondition(lambda self: self.world.lost is None and self.live())
    @rule(data=st.data())
    def cancels(self, data: st.DataObject) -> None:
        """The gateway loses interest, and keeps what it has heard."""
        number = data.draw(st.sampled_from(self.live()))
        if isinstance(self.world.calls.get(number), Decode):
            heard = Message("assistant", "x" * self.seqs[number])
            self.pasts = [(*self.messages[number], heard), *self.pasts][:3]
        self.world.cancel(number)

    @precondition(lambda self: self.world.lost is None)
    @rule()
    def removes(self) -> None:
        """The worker has removed what it was asked to."""
        self.world.remove()

    @precondition(lambda self: self.world.lost is None)
    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0, 70.0]))
    def waits(self, seconds: float) -> None:
        """Time passes."""
        self.world.wait(seconds)

    @precondition(lambda self: self.world.lost is not None)
    @rule()
    def comes_back(self) -> None:
        """The next heartbeat brings the worker back, without any session."""
        self.begin()

    @invariant()
    def a_session_has_one_turn(self) -> None:
        """No two streams use a session at a time, and none uses one that is removed."""
        used = [call.session for call in self.world.calls.values()]
        assert len(used) == len(set(used))
        assert not {*used} & {*self.world.deleting, *self.world.deleted}

    def teardown(self) -> None:
        """In the end everything is released, or the link has ended."""
        world = self.world
        for _ in range(3):
            if world.lost is None:
                world.wait(100.0)
                world.remove()
                for number in self.live():
                    world.credit(number, 3)
        assert world.lost is not None or not self.live()
        assert world.lost is not None or not world.calls


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
