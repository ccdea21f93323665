"""Pasts become shorter by rungs, keep their facts, and nothing of what was said is touched."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from roost.core.compacted import Compacted
from roost.core.conversation import KeptConversation, Summary
from roost.core.ids import ModelId, NodeId
from roost.core.pin import Pin
from roost.core.request import Message
from roost.fleet.conversations import compacting
from roost.fleet.conversations.compacting import ASKED, MARK, Rung
from roost.text.gist import Remark

FACTS = (
    "My name is Ingrid Holm.",
    "I live at 17 Birch Lane in Bergen.",
    "My sister Marta was born on 4 March 1988.",
    "The contract number is K-2291.",
    "My flight LH417 leaves at 06:45.",
    "My doctor is called Odd Nansen.",
)
SAYS_NOTHING = "That is nice to hear. There is much that one could say about it, and more. " * 3


def kept(turns: int, tokens: int = 0, **more: object) -> KeptConversation:
    """A conversation in which one turn in two tells a fact."""
    messages: list[Message] = []
    for number in range(turns):
        fact = FACTS[number // 2 % len(FACTS)] if number % 2 == 0 else "Go on please."
        messages += [
            Message("user", f"Hello again. {fact}"),
            Message("assistant", f"{SAYS_NOTHING} {number}"),
        ]
    pin = Pin(NodeId("n1"), ModelId("m"), tokens)
    made = KeptConversation(pin, 0.0, 1.0, tuple(messages))
    return msgspec.structs.replace(made, **more)


def squeezed(given: KeptConversation, room: int, pairs: int = 2) -> KeptConversation | None:
    """Go down the ladder with extractive summaries until something fits."""
    for rung in compacting.rungs(pairs):
        planned = compacting.draft(given, rung, room, 384)
        if planned is None:
            continue
        text = compacting.extract(given, planned)
        made = compacting.compacted(given, planned, text, "proactive")
        if made is not None:
            return made
    return None


def test_the_last_pairs_stay_as_they_were_and_a_summary_stands_for_the_others() -> None:
    """Two pairs word for word, before them one question and its summary, with all the facts."""
    whole = kept(12, tokens=1800)
    made = squeezed(whole, 1600)
    assert made is not None
    question, summary, *tail = compacting.past_of(made)
    assert question == Message("user", ASKED)
    assert summary.content.startswith(MARK)
    assert tail == list(whole.messages[-4:])
    assert all(fact in summary.content for fact in FACTS[:5])
    assert made.messages == whole.messages
    assert made.summary is not None
    assert made.summary.covers == 10
    assert made.summary.dropped_tokens == 1800 - made.pin.tokens
    assert made.pin.tokens < 700


def test_roles_take_turns_however_much_is_left_out() -> None:
    """User and assistant alternate and the user begins: the strictest templates render it."""
    for pairs in range(4):
        made = squeezed(kept(9, tokens=1400), 1200, pairs)
        assert made is not None
        roles = [message.role for message in compacting.past_of(made)]
        assert roles == ["user", "assistant"] * (len(roles) // 2)


def test_the_ladder_loses_as_little_as_it_can() -> None:
    """Less room: a smaller tail, then no summary, last a summary of everything."""
    assert compacting.rungs(2) == (
        Rung(2, summarised=True),
        Rung(1, summarised=True),
        Rung(2, summarised=False),
        Rung(1, summarised=False),
        Rung(0, summarised=True),
    )
    whole = kept(12, tokens=1800)
    tails: list[tuple[int, bool] | None] = []
    for room in (1600, 400, 260, 175, 120, 20):
        made = squeezed(whole, room)
        if made is None or made.summary is None:
            tails.append(None)
        else:
            tails.append((12 - made.summary.covers, bool(made.summary.text)))
    assert tails == [(2, True), (2, True), (1, True), (1, False), (0, True), None]


def test_what_was_compacted_can_be_compacted_again() -> None:
    """Facts of the first turns survive many compactions, each made of the one before."""
    now = kept(4, tokens=700)
    for number in range(5, 30):
        said = kept(1, messages=(Message("user", "Go on."), Message("assistant", SAYS_NOTHING)))
        messages = (*now.messages, *said.messages)
        pin = msgspec.structs.replace(now.pin, tokens=now.pin.tokens + 60)
        now = msgspec.structs.replace(now, messages=messages, pin=pin)
        if number % 3 == 0:
            made = squeezed(now, 500)
            assert made is None or made.pin.tokens <= 520
            now = made or now
    assert now.summary is not None
    assert all(fact in now.summary.text for fact in FACTS[:2])
    assert now.summary.covers > 15
    assert len(compacting.past_of(now)) < 14


def test_the_next_turn_is_told_once() -> None:
    """The first turn after a compaction is told what was dropped, the second nothing."""
    made = squeezed(kept(12, tokens=1800), 1600)
    assert made is not None
    assert made.summary is not None
    assert made.compacted == Compacted("proactive", made.summary.dropped_tokens)
    more = (*made.messages, Message("user", "q"), Message("assistant", "a"))
    assert msgspec.structs.replace(made, messages=more).compacted is None
    assert kept(3).compacted is None


def test_recalled_without_what_is_covered_it_is_the_same() -> None:
    """The store need not give back what a summary stands for."""
    made = squeezed(kept(12, tokens=1800), 1600)
    assert made is not None
    short = msgspec.structs.replace(made, messages=made.messages[2 * 9 :], skipped=9)
    assert compacting.past_of(short) == compacting.past_of(made)
    assert (short.turns, short.covered, short.compacted) == (12, 10, made.compacted)
    assert compacting.rate_of(short) == compacting.rate_of(made)
    deeper = [squeezed(one, 200) for one in (short, made)]
    assert deeper[0] is not None
    assert deeper[1] is not None
    assert deeper[0].summary == deeper[1].summary


def test_nothing_is_given_for_nothing() -> None:
    """Where the past would not become much shorter it stays whole."""
    two = Rung(2, summarised=True)
    assert compacting.draft(kept(2, tokens=300), two, 1600, 384) is None
    assert squeezed(kept(0), 1600) is None
    short = kept(3)
    tail = tuple(msgspec.structs.replace(m, content=m.content * 9) for m in short.messages[2:])
    given = msgspec.structs.replace(short, messages=(*short.messages[:2], *tail))
    planned = compacting.draft(given, two, 10**6, 384)
    assert planned is not None
    text = compacting.extract(given, planned)
    assert compacting.compacted(given, planned, text, "proactive") is None


def test_tokens_are_learned_from_what_the_conversation_cost() -> None:
    """The runtime's own count of this past, template included, is the measure."""
    dear, cheap = kept(4, tokens=2000), kept(4, tokens=400)
    assert compacting.rate_of(dear).per_byte > 4 * compacting.rate_of(cheap).per_byte
    assert compacting.rate_of(dear).of(dear.messages) >= 2000
    assert compacting.rate_of(kept(4)).per_byte == compacting.Rate().per_byte
    assert compacting.rate_of(kept(1, tokens=10**9)).per_byte == 2.0


def test_a_models_summary_is_judged_by_the_facts_it_keeps() -> None:
    """Empty, going in circles and forgetful summaries are found; a paraphrase is good."""
    planned = compacting.draft(kept(12, tokens=1800), Rung(2, summarised=True), 1600, 384)
    assert planned is not None
    extracted = compacting.extract(kept(12, tokens=1800), planned)
    good = (
        "Ingrid Holm of 17 Birch Lane, Bergen, has a sister Marta, born 4 March 1988. Contract "
        "K-2291. Flight LH417 at 06:45. Her doctor is Odd Nansen."
    )
    judged = [
        compacting.judge(text, extracted, 0.6)
        for text in ("", " \n", "They talk about the sea. " * 9, "They talked at length.", good)
    ]
    assert judged == ["empty", "empty", "repeats", "loses", "good"]


def test_a_models_summary_is_brought_into_its_room() -> None:
    """Labels that models repeat are dropped, and so is the sentence that did not fit."""
    whole = kept(12, tokens=1800)
    planned = compacting.draft(whole, Rung(2, summarised=True), 1600, 384)
    assert planned is not None
    assert compacting.polished(" Summary: She is well.", whole, planned) == "She is well."
    long = compacting.polished("She is called Ingrid. " * 400, whole, planned)
    assert long.endswith("She is called Ingrid.")
    assert len(long.encode()) <= compacting.rate_of(whole).bytes_of(384)


def test_a_model_is_asked_with_the_talk_as_lines() -> None:
    """An instruction, the head with its speakers, and where to begin."""
    planned = compacting.draft(kept(4, tokens=700), Rung(2, summarised=True), 600, 384)
    assert planned is not None
    (message,) = compacting.request_for(planned).messages
    assert message.role == "user"
    assert message.content.startswith(compacting.INSTRUCTION)
    assert "\n\nUser: Hello again. My name is Ingrid Holm.\nAssistant: That" in message.content
    assert message.content.endswith("\n\nSummary:")


def test_a_head_is_read_up_to_a_limit_the_newest_first() -> None:
    """A book in one message does not hold up the loop; the summary before it is always read."""
    book = "x" * (2 * compacting.READ_MAX_BYTES)
    messages = (
        *(Message("user", "My name is Tom."), Message("assistant", book)),
        *(Message("user", "My age is 41."), Message("assistant", "Fine.")),
        *kept(2).messages,
    )
    earlier = Summary("User: I am from Rome.", 0, 0, "proactive", 0)
    given = kept(0, messages=messages, summary=earlier)
    planned = compacting.draft(given, Rung(2, summarised=True), 10**6, 384)
    assert planned is not None
    assert planned.head[0] == Remark("user", "I am from Rome.")
    assert [one.text for one in planned.head[-2:]] == ["My age is 41.", "Fine."]
    assert sum(len(one.text) for one in planned.head[1:]) == compacting.READ_MAX_BYTES
    assert "My name is Tom." not in [one.text for one in planned.head]


texts = st.text(alphabet="aB 1.?é我", max_size=80)
pairs = st.lists(st.tuples(texts, texts), max_size=8)


@given(pairs, st.integers(0, 600), st.integers(0, 800), st.integers(0, 4), st.integers(0, 3))
def test_whatever_was_said_a_shorter_past_is_shorter_and_the_words_are_whole(
    said: list[tuple[str, str]], tokens: int, room: int, covers: int, tail: int
) -> None:
    """Any talk, compacted before or not: room is kept, the tail is verbatim, words untouched."""
    messages = tuple(one for a, b in said for one in (Message("user", a), Message("assistant", b)))
    covers = min(covers, len(said))
    summary = Summary("User: I am 7.", covers, covers, "proactive", 0) if covers else None
    pin = Pin(NodeId("n"), ModelId("m"), tokens)
    given = KeptConversation(pin, 0.0, 0.0, messages, summary)
    made = squeezed(given, room, tail)
    if made is None:
        return
    assert made.messages == messages
    assert made.summary is not None
    assert made.summary.covers >= covers
    assert made.pin.tokens < compacting.tokens_of(given)
    assert made.summary.dropped_tokens > 0
    past = compacting.past_of(made)
    verbatim = messages[2 * made.summary.covers :]
    assert past[len(past) - len(verbatim) :] == verbatim
    # A byte more or less becomes a token by rounding.
    assert compacting.rate_of(given).of(past) <= room + 3
