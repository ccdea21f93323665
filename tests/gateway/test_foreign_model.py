"""A worker of system 1 in the place of a node, whatever happens in whatever order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from roost.core.ids import StreamId
from roost.core.request import Message
from roost.dialects.worker_calls import Denied, Over, Prefilled, Said, Token
from roost.errors import Failure
from roost.gateway.foreign.effects import (
    Began,
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
    @rule(text=TEXTS, credit=st.integers(0, 2), require=st.booleans(), past=st.integers(0, 9))
    def opens(self, text: str, credit: int, past: int, *, require: bool) -> None:
        """A new stream, that goes on with something or begins."""
        before = self.pasts[past] if past < len(self.pasts) else ()
        messages = (*before, Message("user", text))
        self.messages[self.world.open(messages, credit=credit, require=require)] = messages

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
            world.hear(number, data.draw(results | st.just(Lost())))
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
            self.pasts = [*self.pasts, whole][-5:]
        world.hear(number, heard)

    @precondition(lambda self: self.world.lost is None and self.live())
    @rule(data=st.data(), messages=st.integers(1, 3))
    def credits(self, data: st.DataObject, messages: int) -> None:
        """The gateway takes more."""
        self.world.credit(data.draw(st.sampled_from(self.live())), messages)

    @precondition(lambda self: self.world.lost is None and self.live())
    @rule(data=st.data())
    def cancels(self, data: st.DataObject) -> None:
        """The gateway loses interest."""
        self.world.cancel(data.draw(st.sampled_from(self.live())))

    @precondition(lambda self: self.world.lost is None)
    @rule()
    def removes(self) -> None:
        """The worker has removed what it was asked to."""
        self.world.remove()

    @precondition(lambda self: self.world.lost is None)
    @rule(seconds=st.floats(0.0, 70.0))
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
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
