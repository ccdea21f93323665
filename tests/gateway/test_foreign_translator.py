"""A worker of system 1 in the place of a node: every message judged by the gateway's own end."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.events import Delta, Finished, Started, Usage
from roost.core.ids import RequestId, StreamId
from roost.core.request import ChatPrompt, Message, Sampling, TextPrompt
from roost.core.worker import WorkerBeat, WorkerHealth
from roost.dialects.system1.worker_calls import Denied, Over, Prefilled, Token
from roost.gateway.foreign.effects import (
    Began,
    Decode,
    Ended,
    Lost,
    Note,
    Pieces,
    Prefill,
    Say,
)
from roost.gateway.foreign.translator import ForeignSettings, Translator
from roost.wire.messages import (
    Released,
    Status,
)
from tests.gateway.foreign_kit import BEAT, HELLO, HI, MODEL, World


def test_a_turn_is_a_prefill_and_a_decode() -> None:
    """Every event in order, the counts of the worker, and the session kept."""
    world = World()
    one = world.open()
    assert world.calls[one] == Prefill(one, "s1", MODEL, "create", "hi", 5)
    world.hear(one, Prefilled(9, 2))
    assert world.calls[one] == Decode(one, "s1", 5, Sampling(), ())
    world.hear(one, Began(), Pieces((Token("Hel", 0), Token("lo", 1))))
    world.hear(one, Pieces((Over("length", 7),)), Ended())
    assert world.events[one] == [
        Started(9, 2, 0),
        Delta("Hello", tokens=2),
        Finished("length", Usage(9, 2, 7)),
    ]
    assert world.released[one] == Released(one, "done")
    assert world.deleting == []


def test_the_next_turn_continues_with_its_own_text_alone() -> None:
    """Another tenant's turn, or another past, has nothing of it."""
    world = World()
    world.answer(world.open(), "Hel", "lo")
    again = world.open(HELLO)
    assert world.calls[again] == Prefill(again, "s1", MODEL, "continue", "more", 5)
    other = world.open(HELLO, tenant="u")
    told = "[RECENT MESSAGES]\nUser: hi\nAssistant: Hello\n\nmore"
    assert world.calls[other] == Prefill(other, "s2", MODEL, "create", told, 5)
    world.answer(again, "Yes", cached=8)
    edited = world.open((*HI, Message("assistant", "Goodbye"), Message("user", "more")))
    made = world.calls[edited]
    assert isinstance(made, Prefill)
    assert (made.session, made.mode) == ("s3", "create")


def test_a_session_that_is_gone_is_made_anew_under_a_new_name() -> None:
    """From the whole past, which the gateway has; nothing is cached, and that is said."""
    world = World()
    world.answer(world.open(), "Hello")
    again = world.open(HELLO)
    world.hear(again, Denied(404, "session_gone"))
    made = world.calls[again]
    assert isinstance(made, Prefill)
    assert (made.session, made.mode) == ("s2", "create")
    world.answer(again, "Yes")
    assert world.events[again][0] == Started(9, 0, 0)


def test_who_requires_it_is_told_that_it_is_gone() -> None:
    """By the worker's word, and where nobody here knows of any session."""
    world = World()
    world.answer(world.open(), "Hello")
    again = world.open(HELLO, require=True)
    world.hear(again, Denied(404, "session_gone"))
    assert world.refused[again].reason == "session_gone"
    once_more = world.open(HELLO, require=True)
    assert world.refused[once_more].reason == "session_gone"
    first = world.open(require=True)
    assert first in world.calls
    assert set(world.released) == {StreamId(1), again, once_more}


@pytest.mark.parametrize(
    ("denied", "reason", "removed"),
    [
        (Denied(503, "max_sessions_exceeded", 7), "node_busy", False),
        (Denied(503, "total_kv_cache_exceeded"), "node_busy", False),
        (Denied(429, "node_busy"), "node_busy", False),
        (Denied(409, "session_busy"), "node_busy", False),
        (Denied(413, "prompt_too_long"), "context_length_exceeded", False),
        (Denied(409, "session_full"), "context_length_exceeded", False),
        (Denied(503, "session_kv_cache_too_large"), "context_length_exceeded", False),
        (Denied(500), "runtime_error", True),
        (Denied(401), "upstream_error", True),
        (Denied(302), "upstream_error", True),
        (Denied(404, "model_not_found"), "upstream_error", True),
    ],
)
def test_refusals_are_refusals(denied: Denied, reason: str, *, removed: bool) -> None:
    """Each in the words that the coordinator acts on; what may have been made is removed."""
    world = World()
    one = world.open()
    world.hear(one, denied)
    assert world.refused[one].reason == reason
    assert world.refused[one].retry_after_s == denied.retry_after_s
    assert one in world.released
    assert world.deleting == (["s1"] if removed else [])


def test_a_session_that_found_no_room_waits_for_its_next_turn() -> None:
    """Nothing has changed at the worker; a session that is full is no use to anybody."""
    world = World()
    world.answer(world.open(), "Hello")
    world.hear(world.open(HELLO), Denied(503, "total_kv_cache_exceeded"))
    again = world.open(HELLO)
    made = world.calls[again]
    assert isinstance(made, Prefill)
    assert (made.session, made.mode) == ("s1", "continue")
    world.hear(again, Denied(409, "session_full"))
    assert world.refused[again].reason == "context_length_exceeded"
    assert world.deleting == ["s1"]


def test_a_gap_ends_the_answer() -> None:
    """A hole in a text is no text: it is noted, told as a failure, and the session removed."""
    world = World()
    one = world.open()
    world.hear(one, Prefilled(9, 0), Began(), Pieces((Token("a", 0), Token("c", 2))))
    assert [(note.wanted, note.got) for note in world.notes] == [(1, 2)]
    assert world.events[one][1] == Delta("a")
    assert world.failure(one) == "upstream_error"
    assert one not in world.released
    world.remove()
    assert one in world.released


def test_a_repetition_is_a_gap_too() -> None:
    """What comes twice would be said twice."""
    world = World()
    one = world.open()
    world.hear(one, Prefilled(9, 0), Began(), Pieces((Token("a", 0), Token("a", 0))))
    assert world.notes == [Note(RequestId("r1"), "s1", 1, 0)]
    assert world.failure(one) == "upstream_error"


def test_a_clean_end_without_a_last_word_is_complete() -> None:
    """Workers of system 1 say none; how many tokens there were says why it ended."""
    world = World()
    one = world.open()
    world.hear(one, Prefilled(9, 0), Began(), Pieces((Token("a", 0),)), Ended())
    assert world.events[one][-1] == Finished("stop", Usage(9, 0, 1))
    two = world.open()
    tokens = tuple(Token("a", seq) for seq in range(5))
    world.hear(two, Prefilled(9, 0), Began(), Pieces(tokens), Ended())
    assert world.events[two][-1] == Finished("length", Usage(9, 0, 5))


def test_a_cut_connection_is_no_end() -> None:
    """While others are heard of the worker, it costs one stream; otherwise the worker is gone."""
    world = World()
    one, two = world.open(), world.open()
    world.hear(one, Prefilled(9, 0), Began(), Pieces((Token("a", 0),)), Lost())
    assert world.failure(one) == "node_lost"
    assert world.lost is None
    world.remove()
    world.hear(two, Lost())
    assert world.lost is not None
    assert world.lost.reason == "node_lost"
    assert two not in world.events


def test_a_cut_after_the_last_word_is_none() -> None:
    """The answer is whole, however its connection ends."""
    world = World()
    one = world.open()
    world.hear(one, Prefilled(9, 0), Began(), Pieces((Token("a", 0), Over("stop"))), Lost())
    assert isinstance(world.events[one][-1], Finished)
    assert world.lost is None
    again = world.open((*HI, Message("assistant", "a"), Message("user", "b")))
    assert world.prefills[-1].mode == "continue"
    assert again in world.calls


def test_a_required_session_dies_with_its_worker() -> None:
    """Who cannot be reached has no KV either."""
    world = World()
    world.answer(world.open(), "Hello")
    again = world.open(HELLO, require=True)
    world.hear(again, Lost())
    assert world.refused[again].reason == "session_gone"
    assert world.lost is not None


def test_a_cancel_hangs_up_and_has_the_session_removed() -> None:
    """Its place is free when the worker has removed it, and the time until then is told."""
    world = World()
    one = world.open()
    world.hear(one, Prefilled(9, 0), Began(), Pieces((Token("a", 0),)))
    world.now = 1.0
    world.cancel(one)
    world.cancel(one)
    assert one not in world.calls
    assert world.deleting == ["s1"]
    assert one not in world.released
    world.now = 3.5
    world.remove()
    assert world.released[one] == Released(one, "decode", 2.5)
    two = world.open()
    world.cancel(two)
    world.wait(6.0)
    assert world.released[two] == Released(two, "prefill", 6.0)


def test_nothing_may_take_for_ever() -> None:
    """A prefill, an answer, and the time between the last word and the end have limits."""
    world = World()
    one = world.open()
    assert world.translator.next_tick() == 60.0
    world.wait(60.0)
    assert world.failure(one) == "runtime_error"
    assert one not in world.calls
    world.remove()
    two = world.open()
    world.hear(two, Prefilled(9, 0), Began())
    world.wait(59.0)
    world.hear(two, Pieces((Token("a", 0),)))
    world.wait(59.0)
    assert two in world.calls
    world.wait(1.0)
    assert world.failure(two) == "runtime_error"
    world.remove()
    three = world.open()
    world.hear(three, Prefilled(9, 0), Began(), Pieces((Over("stop"),)))
    world.wait(5.0)
    assert three in world.released
    assert three not in world.calls


def test_a_reader_that_does_not_read_stops_the_reading() -> None:
    """At most so much is held; its own slowness is not held against the worker."""
    world = World()
    one = world.open(credit=1)
    world.hear(one, Prefilled(9, 0), Began())
    tokens = tuple(Token("x", seq) for seq in range(4))
    world.hear(one, Pieces(tokens))
    assert world.paused == {one}
    world.wait(1000.0)
    assert one in world.calls
    world.credit(one)
    assert world.paused == set()
    assert world.events[one][-1] == Delta("xxxx", tokens=4)
    assert world.translator.next_tick() == world.now + 60.0
    world.hear(one, Pieces((Over("stop"),)), Ended())
    assert one not in world.released
    world.credit(one)
    assert one in world.released


def test_slots_are_limited_and_other_requests_are_not_understood() -> None:
    """A third of two is refused; so is what is no turn of a chat."""
    world = World()
    world.open()
    world.open()
    assert world.refused[world.open()].reason == "node_busy"
    other = World()
    raw = other.open(prompt=TextPrompt("raw"))
    assert other.refused[raw].reason == "unsupported"
    said = other.open(prompt=ChatPrompt((*HI, Message("assistant", "Hello"))))
    assert other.refused[said].reason == "unsupported"


def test_idle_sessions_are_removed() -> None:
    """After their time, and where there are too many: the least recently used first."""
    world = World(ForeignSettings(sessions_max=1, session_idle_s=10.0))
    world.answer(world.open(), "Hello")
    world.answer(world.open((Message("user", "ho"),)), "Hello")
    assert world.deleting == ["s1"]
    world.remove()
    world.wait(10.0)
    assert world.deleting == ["s2"]
    assert world.translator.next_tick() is None


def test_a_past_is_handed_over_without_an_answer() -> None:
    """Prefilled as text, nothing decoded, and there for the next turn."""
    world = World()
    one = world.open(HELLO[:2], most=1)
    told = "[RECENT MESSAGES]\nUser: hi\nAssistant: Hello"
    assert world.calls[one] == Prefill(one, "s1", MODEL, "create", told, 1)
    world.hear(one, Prefilled(9, 0))
    assert world.events[one] == [Started(9, 0, 0), Finished("length", Usage(9, 0, 0))]
    assert one in world.released
    again = world.open(HELLO)
    assert world.calls[again] == Prefill(again, "s1", MODEL, "continue", "more", 5)


def test_a_worker_that_is_left_keeps_nothing() -> None:
    """When nobody comes back, or it drains itself, idle sessions are removed, and later ones."""
    world = World()
    world.answer(world.open(), "Hello")
    running = world.open((Message("user", "ho"),))
    world.take(world.translator.on_vacate(vacant=True))
    assert world.deleting == ["s1"]
    world.answer(running, "Hello")
    assert world.deleting == ["s1", "s2"]
    world.take(world.translator.on_vacate(vacant=False))
    world.remove()
    world.answer(world.open(), "Hello")
    draining = msgspec.structs.replace(BEAT, health=WorkerHealth(draining=True))
    world.take(world.translator.on_beat(draining))
    assert world.deleting == ["s3"]


def test_reports_say_what_heartbeats_say() -> None:
    """Models, slots and context; without any, what the settings say, which is nothing at first."""
    translator = Translator(ForeignSettings(), "life", lambda: "s")

    def told(beat: WorkerBeat, *, rests: bool = False) -> Status:
        (effect,) = translator.on_beat(beat, rests=rests)
        assert isinstance(effect, Say)
        assert isinstance(effect.message, Status)
        return effect.message

    first = told(BEAT)
    (offer,) = first.status.models
    assert (offer.model, offer.slots, offer.ctx, offer.serves) == (MODEL, 2, 512, "plain_turns")
    assert (first.status.max_in_flight, first.status.draining) == (2, False)
    assert first.status.runtimes[0].runtime == "life"
    then = told(WorkerBeat("w", "u", WorkerHealth(draining=True), sampling=True))
    assert (then.seq, then.status.models) == (first.seq + 1, ())
    assert then.status.draining
    assert told(BEAT, rests=True).status.max_in_flight == 0
    assert told(BEAT).status.max_in_flight == 2
    assert told(WorkerBeat("w", "u", WorkerHealth(alive=False))).status.max_in_flight == 0
