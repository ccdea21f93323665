"""POST /coordinator/infer over real sockets: conversations that become longer than they may."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec
import pytest

from roost.core.events import Delta, Finished, Started, Usage
from roost.core.ids import NodeId
from roost.core.request import ChatPrompt
from roost.errors import Failure
from roost.fleet.conversations.compacting import ASKED, INSTRUCTION, MARK, CompactionSettings
from roost.fleet.nodes.handover import HandoverSettings
from roost.gateway.conversations.infer import InferSettings
from roost.store.conversations.journal import Journal, JournalSettings
from roost.store.conversations.transcripts import open_disk
from roost.store.home import Home
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Reply, Stage, ask, staged
from tests.gateway.puppet import Puppet, status
from tests.gateway.test_infer import PATH, RELAY, events, texts, turn

TOO_LONG = Failure("context_length_exceeded", "The prompt does not fit the context.")
RULES = CompactionSettings(summariser="extractive", budget_tokens=230, summary_max_tokens=60)
BY_MODEL = msgspec.structs.replace(RULES, summariser="model")
FACTS = ("My name is Ingrid Holm.", "I live at 17 Birch Lane.", "My cat Tom is 9.")
CHATTER = "That is nice to hear. There is much that one could say about it, and more of that."
GOOD = "Ingrid Holm of 17 Birch Lane has a cat, Tom, who is 9."


@asynccontextmanager
async def talking(rules: CompactionSettings) -> AsyncIterator[tuple[Stage, Puppet]]:
    """A gateway that keeps conversations in memory, and a node that answers everything."""
    infer = InferSettings(relay=RELAY, compaction=rules)
    settings = msgspec.structs.replace(
        SETTINGS, infer=infer, handover=HandoverSettings(look_s=0.05)
    )
    async with staged(settings, journal=Journal(None, JournalSettings())) as stage:
        node = stage.add_node()
        node.on_open = lambda opened: say(node, opened)
        await stage.ready()
        yield stage, node


def words(opened: Open) -> str:
    """The whole prompt."""
    return "\n".join(texts(opened))


def counted(opened: Open) -> int:
    """Tokens of a prompt: a letter in four, and a few for each message's template."""
    prompt = opened.request.prompt
    assert isinstance(prompt, ChatPrompt)
    return sum(len(message.content) // 4 + 4 for message in prompt.messages)


def say(node: Puppet, opened: Open, text: str = CHATTER) -> None:
    """Answer with true counts, some of the prompt cached."""
    tokens = counted(opened)
    node.say(opened.stream, Started(tokens, tokens // 2, slot=0))
    node.say(opened.stream, Delta(text, tokens=20))
    node.say(opened.stream, Finished("stop", Usage(tokens, tokens // 2, 20)))
    node.release(opened.stream)


def asks_for_summary(opened: Open) -> bool:
    """Whether the gateway wants to know something for itself."""
    return INSTRUCTION in words(opened)


async def spoken(stage: Stage, prompt: str, **headers: str) -> Reply:
    """Say one thing in the conversation."""
    return await ask(stage.port, "POST", PATH, turn(prompt), **headers)


async def grown(stage: Stage, turns: int = 6) -> None:
    """Make the conversation long enough to be due, with facts at its beginning."""
    for number in range(turns):
        fact = FACTS[number] if number < len(FACTS) else "Go on please."
        assert (await spoken(stage, fact)).status == 200


def made(stage: Stage, trigger: str, outcome: str) -> Callable[[], bool]:
    """Whether a past has been made shorter for this reason, by this one's summary."""
    value = stage.gateway.metrics.value
    return lambda: value("roost_compactions_total", trigger, outcome) == 1


def refusing(node: Puppet) -> Callable[[Open], None]:
    """Let a node refuse every turn, and say nothing when a summary is asked for then."""

    def answer(opened: Open) -> None:
        if not asks_for_summary(opened):
            node.refuse(opened.stream, TOO_LONG)

    return answer


def label(reply: Reply) -> str:
    """Where it was served, and why there."""
    return reply.headers["x-roost-placement"]


async def receipt(stage: Stage, reply: Reply) -> dict[str, object]:
    """The receipt of a reply."""
    request = reply.headers["x-roost-request-id"]
    return (await ask(stage.port, "GET", f"/roost/v1/requests/{request}")).json()


async def test_fifteen_turns_beyond_the_budget_keep_their_facts() -> None:
    """No 409, no other event or field; only the label tells, and the receipt by how much."""
    async with talking(RULES) as (stage, node):
        labels, shapes = [], set()
        for number in range(15):
            fact = FACTS[number] if number < len(FACTS) else f"Say more about it, number {number}."
            reply = await spoken(stage, fact)
            assert reply.status == 200
            labels.append(label(reply))
            served = events(reply)
            shapes.add(str([sorted(event) for event in served]))
            roost = cast("dict[str, object]", served[-1]["roost"])
            told = (await receipt(stage, reply))["compacted"]
            assert roost["placement"] == labels[-1]
            assert (told is not None) == (labels[-1] == "moved(compacted)")
            if told is not None:
                made = cast("dict[str, object]", told)
                assert made["trigger"] == "proactive"
                assert cast("int", made["dropped_tokens"]) > 30
        assert len(shapes) == 1
        compacted = [n for n, one in enumerate(labels) if one == "moved(compacted)"]
        # The debounce keeps the second one away; what the model gets is bounded all the same.
        assert compacted == [6]
        assert set(labels[1:6] + labels[7:]) == {"warm"}
        past = texts(node.opened[-1])
        assert past[0] == f"user: {ASKED}"
        assert past[1].startswith(f"assistant: {MARK}")
        assert all(fact in past[1] for fact in FACTS[:2])
        shown = (await ask(stage.port, "GET", "/roost/v1/conversations/c1")).json()
        messages = cast("list[dict[str, str]]", shown["messages"])
        assert len(messages) == 30
        assert [one["content"] for one in messages[:6:2]] == list(FACTS)
        metric = stage.gateway.metrics.value
        assert metric("roost_compactions_total", "proactive", "extractive") == 1
        assert metric("roost_compaction_dropped_tokens_total") > 30


async def test_without_the_debounce_a_past_never_outgrows_its_budget() -> None:
    """However long it goes on, a prompt is bounded, and the facts of the beginning are in it."""
    rules = msgspec.structs.replace(RULES, debounce_s=0.0)
    async with talking(rules) as (stage, node):
        await grown(stage, 24)
        assert max(map(counted, node.opened)) < 230
        assert all(fact in words(node.opened[-1]) for fact in FACTS)


async def test_the_models_own_summary_is_used_if_it_keeps_the_facts() -> None:
    """It is asked for as a request of the lowest class, and the turn goes on from it."""
    async with talking(BY_MODEL) as (stage, node):
        node.on_open = lambda opened: (
            say(node, opened, GOOD) if asks_for_summary(opened) else say(node, opened)
        )
        await grown(stage)
        await until(made(stage, "proactive", "model"), what="it is summed up ahead")
        reply = await spoken(stage, "And now?")
        assert label(reply) == "moved(compacted)"
        summary, last = node.opened[-2:]
        assert asks_for_summary(summary)
        assert summary.request.max_tokens is not None
        assert summary.request.max_tokens <= 60
        assert texts(last)[1] == f"assistant: {MARK}{GOOD}"
        assert words(summary) not in words(last)
        asked = (await ask(stage.port, "GET", f"/roost/v1/requests/{summary.request_id}")).json()
        assert (asked["class_"], asked["outcome"]) == ("bulk", "complete")


@pytest.mark.parametrize("how", ["forgets", "repeats", "fails", "is slow"])
async def test_a_bad_summary_costs_no_fact(how: str) -> None:
    """Whatever the model makes of it, the turn goes on from the facts, within its time."""
    rules = msgspec.structs.replace(BY_MODEL, summary_wait_s=0.05)

    def answer(node: Puppet, opened: Open) -> None:
        if not asks_for_summary(opened):
            say(node, opened)
        elif how == "forgets":
            say(node, opened, "They had a friendly talk.")
        elif how == "repeats":
            say(node, opened, "Ingrid Holm is nice. " * 20)
        elif how == "fails":
            node.refuse(opened.stream, TOO_LONG)

    async with talking(rules) as (stage, node):
        node.on_open = lambda opened: answer(node, opened)
        await grown(stage)
        await until(made(stage, "proactive", "extractive"), what="it is summed up all the same")
        reply = await spoken(stage, "And now?")
        assert label(reply) == "moved(compacted)"
        assert all(fact in words(node.opened[-1]) for fact in FACTS[:2])
        if how == "is slow":
            await until(lambda: node.cancelled == [node.opened[-2].stream], what="it is stopped")


async def test_nobody_who_talks_waits_for_a_summary_ahead_of_time() -> None:
    """A turn that comes while a model sums up goes on from the facts at once."""
    rules = msgspec.structs.replace(BY_MODEL, summary_wait_s=60.0)
    async with talking(rules) as (stage, node):
        node.on_open = lambda opened: None if asks_for_summary(opened) else say(node, opened)
        await grown(stage)
        await until(lambda: asks_for_summary(node.opened[-1]), what="a summary is asked for")
        summary = node.opened[-1]
        reply = await spoken(stage, "And now?")
        assert label(reply) == "moved(compacted)"
        assert all(fact in words(node.opened[-1]) for fact in FACTS[:2])
        await until(lambda: node.cancelled == [summary.stream], what="it is stopped")


async def test_a_client_that_leaves_while_its_past_is_summed_up_changes_nothing() -> None:
    """The summary is stopped, the next turn begins, and every word is there."""
    rules = msgspec.structs.replace(BY_MODEL, budget_tokens=100_000)
    async with talking(rules) as (stage, node):
        await grown(stage, 8)
        node.on_open = refusing(node)
        client = await stage.client()
        client.send("POST", PATH, turn("Never mind."))
        await until(lambda: asks_for_summary(node.opened[-1]), what="a summary is asked for")
        summary = node.opened[-1]
        client.close()
        await until(lambda: node.cancelled == [summary.stream], what="it is stopped")
        node.release(summary.stream)
        node.on_open = lambda opened: say(node, opened)
        reply = await spoken(stage, "And now?")
        assert label(reply) == "warm"
        assert len(texts(node.opened[-1])) == 17
        assert "Never mind." not in words(node.opened[-1])


def fits(node: Puppet, most: int) -> Callable[[Open], None]:
    """Let a node refuse what is longer."""

    def answer(opened: Open) -> None:
        if counted(opened) > most:
            node.refuse(opened.stream, TOO_LONG)
        else:
            say(node, opened)

    return answer


async def test_what_a_node_refuses_is_made_shorter_until_it_fits() -> None:
    """The exact count is the node's: a refusal becomes a shorter past, and the client sees none."""
    rules = msgspec.structs.replace(RULES, budget_tokens=100_000)
    async with talking(rules) as (stage, node):
        await grown(stage, 6)
        before = len(node.opened)
        node.on_open = fits(node, 110)
        reply = await spoken(stage, "And now?")
        assert reply.status == 200
        assert label(reply) == "moved(compacted)"
        assert len(node.opened) - before >= 2
        lengths = [counted(opened) for opened in node.opened[before:]]
        assert lengths == sorted(lengths, reverse=True)
        made = cast("dict[str, object]", (await receipt(stage, reply))["compacted"])
        assert made["trigger"] == "session_full"
        node.on_open = lambda opened: say(node, opened)
        assert label(await spoken(stage, "And then?")) == "warm"


async def test_at_the_ladders_end_it_is_409_and_alone_too_long_is_413() -> None:
    """The node's word stands where no past is short enough, or there is none to shorten."""
    async with talking(msgspec.structs.replace(RULES, budget_tokens=100_000)) as (stage, node):
        await grown(stage, 6)
        node.on_open = fits(node, 1)
        reply = await spoken(stage, "And now?")
        assert (reply.status, reply.json()["reason"]) == (409, "session_full")
        other = await ask(stage.port, "POST", PATH, turn("Hello there", "c2"))
        assert other.status == 413
        node.on_open = lambda opened: say(node, opened)
        reply = await spoken(stage, "And now?")
        assert reply.status == 200
        assert "I live at 17 Birch Lane." in words(node.opened[-1])


async def test_whoever_requires_its_kv_keeps_its_past() -> None:
    """Nothing is thrown away behind the back of a client that insists on it."""
    async with talking(RULES) as (stage, node):
        await grown(stage, 7)
        required = {"x_roost_affinity": "require"}
        assert label(await spoken(stage, "And now?", **required)) == "warm"
        assert FACTS[0] in texts(node.opened[-1])[0] or MARK in texts(node.opened[-1])[1]
        node.on_open = fits(node, 1)
        reply = await spoken(stage, "And then?", **required)
        assert (reply.status, reply.json()["reason"]) == (409, "session_full")


async def test_a_turn_is_cancelled_by_its_id_while_its_past_is_summed_up() -> None:
    """Also one that a node has refused before, of which there is a receipt already."""
    rules = msgspec.structs.replace(BY_MODEL, budget_tokens=100_000)
    async with talking(rules) as (stage, node):
        await grown(stage, 8)
        node.on_open = refusing(node)
        client = await stage.client()
        client.send("POST", PATH, turn("And now?"), x_request_id="mine")
        await until(lambda: asks_for_summary(node.opened[-1]), what="a summary is asked for")
        request = node.opened[-2].request_id
        assert (await ask(stage.port, "DELETE", f"/roost/v1/requests/{request}")).status == 202
        reply = await client.reply()
        assert reply.status == 499
        await until(lambda: node.cancelled == [node.opened[-1].stream], what="it is stopped")


async def test_switched_off_nothing_is_rewritten() -> None:
    """A past is sent as it was, whatever it costs."""
    async with talking(msgspec.structs.replace(RULES, summariser="off")) as (stage, node):
        await grown(stage, 8)
        assert len(texts(node.opened[-1])) == 15


async def test_where_kv_is_scarce_the_largest_idle_ones_become_smaller() -> None:
    """A new conversation makes room of others; a turn that comes meanwhile waits for that."""
    rules = msgspec.structs.replace(BY_MODEL, budget_tokens=100_000, kv_max_bytes=1000, batch=1)
    async with talking(rules) as (stage, node):
        report = status(2)
        offer = msgspec.structs.replace(report.models[0], kv_token_bytes=10)
        node.report(msgspec.structs.replace(report, models=(offer,)))
        coordinator = stage.gateway.mind.coordinator
        await until(lambda: coordinator.models()[0].kv_token_bytes == 10, what="it is told")
        await grown(stage, 5)
        node.on_open = lambda opened: None if asks_for_summary(opened) else say(node, opened)
        fresh = await ask(stage.port, "POST", PATH, turn("Hello", "c2"))
        assert fresh.status == 200
        await until(lambda: asks_for_summary(node.opened[-1]), what="a summary is asked for")
        assert stage.gateway.infer.conversations.counts().active == 1
        say(node, node.opened[-1], GOOD)
        await until(made(stage, "kv_pressure", "model"), what="it is smaller")
        reply = await spoken(stage, "And now?")
        assert label(reply) == "moved(compacted)"
        assert texts(node.opened[-1])[1] == f"assistant: {MARK}{GOOD}"
        told = cast("dict[str, object]", (await receipt(stage, reply))["compacted"])
        assert told["trigger"] == "kv_pressure"


async def test_a_past_that_is_due_becomes_shorter_on_its_way_to_another_node() -> None:
    """A drained node's conversation is computed anew elsewhere from its summary."""
    async with talking(RULES) as (stage, _):
        await grown(stage)
        other = stage.add_node("n2")
        other.on_open = lambda opened: say(other, opened)
        gateway = stage.gateway
        await until(lambda: len(gateway.mind.links) == 2, what="the other has joined")
        gateway.mind.park_node(NodeId("n1"), parked=True)
        await until(lambda: bool(other.opened), what="it is moved")
        assert texts(other.opened[0])[1].startswith(f"assistant: {MARK}")
        assert FACTS[0] in words(other.opened[0])
        await until(lambda: gateway.infer.conversations.counts().active == 0, what="it has moved")
        reply = await spoken(stage, "And now?")
        assert label(reply) == "moved(compacted)"
        assert reply.headers["x-roost-node"] == "n2"


async def test_a_turn_keeps_its_clients_time_while_its_past_is_summed_up() -> None:
    """It ends when that is over, and so does the summary."""
    rules = msgspec.structs.replace(BY_MODEL, budget_tokens=100_000)
    async with talking(rules) as (stage, node):
        await grown(stage, 8)
        node.on_open = refusing(node)
        reply = await ask(stage.port, "POST", PATH, turn("Quick!", roost={"timeout_ms": 150}))
        assert reply.status == 504
        assert asks_for_summary(node.opened[-1])
        await until(lambda: node.cancelled == [node.opened[-1].stream], what="it is stopped")


async def test_who_went_on_from_what_could_not_be_noted_is_not_at_home(tmp_path: Path) -> None:
    """On a full disk the next turn has the whole past again; its KV is that of a shorter one."""
    small = open_disk(Home.open(tmp_path / "home"), 65_536)
    settings = msgspec.structs.replace(SETTINGS, infer=InferSettings(relay=RELAY, compaction=RULES))
    journal = Journal(small, JournalSettings(retry_s=60.0))
    async with staged(settings, journal=journal) as stage:
        node = stage.add_node()
        node.on_open = lambda opened: say(node, opened)
        await stage.ready()
        await ask(stage.port, "POST", PATH, turn("x" * 90_000, "other"))
        metrics = stage.gateway.metrics
        await until(lambda: metrics.value("roost_transcripts_degraded") == 1, what="it is full")
        await grown(stage)
        labels = [label(await spoken(stage, "Go on please.")) for _ in range(3)]
        assert labels == ["moved(compacted)", "moved(compacted)", "warm"]
        prompts = [counted(opened) for opened in node.opened[-3:]]
        assert prompts[0] < prompts[1] < prompts[2]
