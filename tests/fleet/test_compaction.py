"""When pasts become shorter, who writes the summary, and what happens when something fails."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from roost.core.conversation import KeptConversation
from roost.core.ids import ConversationKey, ModelId, NodeId, RequestId, TenantId
from roost.core.pin import Pin
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

A, B = ConversationKey(b"a"), ConversationKey(b"b")
R1, R2, R3 = (RequestId(f"r{number}") for number in range(1, 4))
TENANT, MODEL = TenantId("key:1"), ModelId("m")
EXTRACTIVE = CompactionSettings(summariser="extractive")
BY_MODEL = CompactionSettings(summariser="model")
GOOD = "Ingrid Holm lives in Bergen at 17 Birch Lane and pays 450 a month."


def kept(turns: int, tokens: int) -> KeptConversation:
    """A conversation of so many turns, whose past costs so many tokens."""
    fact = "My name is Ingrid Holm. I live in Bergen at 17 Birch Lane. I pay 450 a month."
    says = "That is nice to hear. There is much that one could say about it, and more. " * 4
    messages = tuple(
        message
        for number in range(turns)
        for message in (
            Message("user", fact if number == 0 else "Go on please."),
            Message("assistant", says),
        )
    )
    return KeptConversation(Pin(NodeId("n1"), MODEL, tokens), 0.0, 0.0, messages)


def asked(turns: int, tokens: int, **more: object) -> Asked:
    """A turn of twenty bytes on top of such a past."""
    given = Asked(A, TENANT, MODEL, kept(turns, tokens), 20, 50, ctx=4096)
    return msgspec.structs.replace(given, **more)


def told(effects: list[CompactionEffect]) -> list[tuple[str, str]]:
    """What was told of compactions that ended."""
    return [(one.trigger, one.outcome) for one in effects if isinstance(one, Told)]


@pytest.mark.parametrize(
    ("turns", "tokens", "more", "trigger"),
    [
        (12, 1637, {}, None),
        (12, 1638, {}, "proactive"),
        (2, 1900, {}, None),
        (0, 0, {}, None),
        (12, 1638, {"is_gone": True}, "session_gone"),
        (12, 1637, {"is_gone": True}, None),
        (12, 820, {"ctx": 1024}, "proactive"),
        (12, 990, {"ctx": 1024}, "session_full"),
        (12, 960, {"ctx": 1024, "answer_tokens": None}, "session_full"),
        (12, 500, {"ctx": 1024, "words_bytes": 4000}, "session_full"),
        (12, 3000, {"ctx": 0}, "proactive"),
    ],
)
def test_the_trigger_matrix_of_a_turn(
    turns: int, tokens: int, more: dict[str, object], trigger: str | None
) -> None:
    """80 % of the budget or of a smaller context; a full context; KV that is gone anyway."""
    machine = Compaction(EXTRACTIVE)
    effects = machine.on_turn(R1, asked(turns, tokens, **more), 0.0)
    (go,) = [one for one in effects if isinstance(one, Go)]
    assert [one for one, _ in told(effects)] == ([] if trigger is None else [trigger])
    assert (go.kept.summary is not None) == (trigger is not None)
    assert (go.kept.compacted is not None) == (trigger is not None)


def test_a_compaction_is_kept_then_told_then_gone_on_from() -> None:
    """The note comes first, the turn goes on from exactly what was noted."""
    keep, report, go = Compaction(EXTRACTIVE).on_turn(R1, asked(12, 1800), 7.0)
    assert isinstance(keep, Keep)
    assert isinstance(go, Go)
    assert isinstance(report, Told)
    assert keep.summary == go.kept.summary
    assert keep.tokens == go.kept.pin.tokens
    assert "I pay 450 a month." in keep.summary.text
    assert report.dropped_tokens == keep.summary.dropped_tokens == 1800 - keep.tokens
    assert (report.outcome, report.verdict) == ("extractive", "")


def test_work_in_the_background_compacts_what_has_a_head() -> None:
    """Under pressure below the threshold too, on a drain only what is due; all tail stays."""
    machine = Compaction(EXTRACTIVE)
    assert told(machine.on_work(R1, asked(6, 700), "kv_pressure", 0.0)) == [
        ("kv_pressure", "extractive")
    ]
    assert machine.on_work(R2, asked(6, 700), "worker_drain", 0.0) == [Go(R2, kept(6, 700))]
    assert told(machine.on_work(R3, asked(12, 1700), "worker_drain", 0.0)) == [
        ("worker_drain", "extractive")
    ]
    last = RequestId("last")
    assert machine.on_work(last, asked(2, 700), "kv_pressure", 0.0) == [Go(last, kept(2, 700))]


def test_relief_comes_in_batches_and_one_at_a_time() -> None:
    """Over the limit the largest few are compacted; the next few when those have ended."""
    machine = Compaction(msgspec.structs.replace(BY_MODEL, kv_max_bytes=1000))
    assert machine.relief(1000) == 0
    assert machine.relief(1001) == 3
    machine.on_work(R1, asked(12, 1700), "kv_pressure", 0.0)
    assert machine.relief(9999) == 0
    machine.on_summary(R1, GOOD, 1.0)
    machine.on_over(R1)
    assert machine.relief(9999) == 3
    for never in (
        msgspec.structs.replace(BY_MODEL, kv_max_bytes=0),
        msgspec.structs.replace(BY_MODEL, summariser="off"),
    ):
        assert Compaction(never).relief(10**15) == 0


def test_the_debounce_holds_for_what_nobody_needs_at_once() -> None:
    """Within 30 s only a past that does not fit, or has no KV, is made shorter again."""
    machine = Compaction(EXTRACTIVE)
    assert told(machine.on_turn(R1, asked(12, 1800), 0.0))
    assert not told(machine.on_turn(R2, asked(12, 1800), 29.9))
    assert told(machine.on_turn(R3, asked(12, 1800, key=B), 29.9))
    assert told(machine.on_turn(RequestId("gone"), asked(12, 1800, is_gone=True), 29.9))
    assert told(machine.on_turn(RequestId("full"), asked(12, 1800, ctx=1850), 29.9))
    late = RequestId("late")
    assert not told(machine.on_turn(RequestId("still"), asked(12, 1800), 59.8))
    assert told(machine.on_turn(late, asked(12, 1800), 60.0))


def test_a_models_summary_is_asked_for_and_used() -> None:
    """Of the head, at most 384 tokens, within its time; the turn waits and goes on from it."""
    machine = Compaction(BY_MODEL)
    (asks,) = machine.on_turn(R1, asked(12, 1800), 0.0)
    assert isinstance(asks, Summarise)
    assert (asks.job, asks.tenant, asks.model) == (R1, TENANT, MODEL)
    assert (asks.max_tokens, asks.timeout_s) == (384, 15.0)
    assert machine.busy(R1)
    assert machine.next_tick() == 15.0
    effects = machine.on_summary(R1, GOOD, 4.0)
    assert told(effects) == [("proactive", "model")]
    go = effects[-1]
    assert isinstance(go, Go)
    assert go.kept.summary is not None
    assert go.kept.summary.text == GOOD
    assert not machine.busy(R1)
    assert machine.next_tick() is None


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (None, "empty"),
        ("", "empty"),
        ("They talked about the sea. " * 20, "repeats"),
        ("They had a long and friendly talk.", "loses"),
    ],
)
def test_a_bad_summary_is_replaced_by_the_extractive_one(text: str | None, verdict: str) -> None:
    """A failure, a loop and a loss of facts are not fatal and not used."""
    machine = Compaction(BY_MODEL)
    machine.on_turn(R1, asked(12, 1800), 0.0)
    effects = machine.on_summary(R1, text, 4.0)
    assert told(effects) == [("proactive", "extractive")]
    (report,) = [one for one in effects if isinstance(one, Told)]
    assert report.verdict == verdict
    assert report.took_s == 4.0


def test_a_summary_has_its_time_and_no_more() -> None:
    """A model that is too slow is stopped; what it says later is not heard."""
    machine = Compaction(BY_MODEL)
    machine.on_turn(R1, asked(12, 1800), 0.0)
    assert machine.on_tick(14.9) == []
    stop, *rest = machine.on_tick(15.0)
    assert stop == Stop(R1)
    assert told(rest) == [("proactive", "extractive")]
    assert machine.on_summary(R1, GOOD, 15.1) == []


def test_who_waits_for_work_in_the_background_waits_for_no_model() -> None:
    """The summary is stopped and the one that is there at once is taken."""
    machine = Compaction(BY_MODEL)
    (asks,) = machine.on_work(R1, asked(12, 1800), "proactive", 0.0)
    assert isinstance(asks, Summarise)
    stop, *rest = machine.on_hurry(R1, 1.0)
    assert stop == Stop(R1)
    assert told(rest) == [("proactive", "extractive")]
    assert machine.on_hurry(R1, 2.0) == []
    assert machine.on_hurry(R2, 2.0) == []


def test_a_model_begins_before_the_next_turn_and_keeps_its_distance() -> None:
    """At the threshold of the budget or a smaller context; what takes no time can wait."""
    machine = Compaction(BY_MODEL)
    assert [machine.is_ahead(tokens, lambda: 4096) for tokens in (1637, 1638)] == [False, True]
    assert [machine.is_ahead(tokens, lambda: 1000) for tokens in (799, 800)] == [False, True]
    assert not machine.is_ahead(1000, lambda: 0)
    assert not Compaction(EXTRACTIVE).is_ahead(10**6, lambda: 4096)
    machine.on_work(R1, asked(12, 1800), "proactive", 0.0)
    assert told(machine.on_summary(R1, GOOD, 1.0))
    assert machine.on_work(R2, asked(12, 1800), "proactive", 30.9) == [Go(R2, kept(12, 1800))]
    assert machine.on_work(R3, asked(12, 1800), "proactive", 31.0) != [Go(R3, kept(12, 1800))]


def test_a_client_that_leaves_changes_nothing() -> None:
    """In the middle of a summary: it is stopped, and nothing is kept."""
    machine = Compaction(BY_MODEL)
    machine.on_turn(R1, asked(12, 1800), 0.0)
    assert machine.on_over(R1) == [Stop(R1)]
    assert machine.on_summary(R1, GOOD, 1.0) == []
    assert machine.on_tick(99.0) == []
    assert len(machine) == 0
    assert machine.on_over(R1) == []


def test_a_model_is_asked_only_what_it_can_read() -> None:
    """A head that does not fit its context with the summary is summarised without it."""
    machine = Compaction(BY_MODEL)
    effects = machine.on_turn(R1, asked(12, 1800, ctx=1850), 0.0)
    assert told(effects) == [("session_full", "extractive")]


def test_what_a_node_refuses_is_tried_a_rung_lower_until_the_ladder_ends() -> None:
    """Each time the past is shorter, at last the refusal stands."""
    machine = Compaction(EXTRACTIVE)
    (go,) = machine.on_turn(R1, asked(12, 1500), 0.0)
    assert isinstance(go, Go)
    tokens = [compacting.tokens_of(go.kept)]
    for _ in range(9):
        effects = machine.on_too_long(R1, 1.0)
        if effects[-1] == GiveUp(R1):
            break
        last = effects[-1]
        assert isinstance(last, Go)
        tokens.append(last.kept.pin.tokens)
    else:
        pytest.fail("the ladder has no end")
    assert told(effects) == [("session_full", "still_too_long")]
    assert effects[0] == Undo(R1, A, None, 1500)
    assert len(tokens) >= 4
    assert tokens == sorted(tokens, reverse=True)
    assert all(later <= 0.95 * before for before, later in pairwise(tokens))


def test_a_first_turn_that_is_too_long_is_not_saved_by_compaction() -> None:
    """There is nothing to leave out, with compaction on or off."""
    for given in (EXTRACTIVE, CompactionSettings(summariser="off")):
        machine = Compaction(given)
        assert machine.on_turn(R1, asked(0, 0), 0.0) == [Go(R1, kept(0, 0))]
        assert machine.on_too_long(R1, 0.0) == [GiveUp(R1)]
        assert machine.on_too_long(R2, 0.0) == [GiveUp(R2)]


def test_switched_off_nothing_is_compacted() -> None:
    """Every past stays whole, whatever it costs, and a refusal stands."""
    machine = Compaction(CompactionSettings(summariser="off"))
    assert machine.on_turn(R1, asked(12, 9000), 0.0) == [Go(R1, kept(12, 9000))]
    assert machine.on_too_long(R1, 0.0) == [GiveUp(R1)]
    assert machine.on_work(R2, asked(12, 9000), "worker_drain", 0.0) == [Go(R2, kept(12, 9000))]
