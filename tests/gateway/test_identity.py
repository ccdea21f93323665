"""Which conversation a request belongs to, over real sockets: tokens, hints, what is required."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from typing import cast

import msgspec
import pytest

from roost.core.fence import Life
from roost.core.ids import TenantId
from roost.errors import Failure
from roost.gateway.assemble import GatewaySettings
from roost.gateway.conversations.infer import InferSettings
from roost.gateway.entry.identity import SESSION_HEADERS, IdentitySettings
from roost.gateway.front.access import Principal, by_digest
from roost.gateway.reading.session_token import SessionKey
from roost.gateway.turns.turn import Turn
from roost.store.conversations.journal import Journal, JournalSettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Reply, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet
from tests.gateway.test_infer import PATH, RELAY, events, joined, saying, texts, turn

CHAT = "/v1/chat/completions"
OLD, NEW = SessionKey("k1", b"o" * 32), SessionKey("k2", b"n" * 32)
NAMES = ("a", "b", "c", "d")


def settings(*keys: SessionKey, gateway: str = "g1") -> GatewaySettings:
    """A gateway with these keys."""
    return msgspec.structs.replace(
        SETTINGS,
        identity=IdentitySettings(keys or (OLD,), 3600.0, Life(gateway, 1)),
        infer=InferSettings(relay=RELAY),
    )


async def nodes_of(stage: Stage) -> list[Puppet]:
    """Four nodes that answer."""
    nodes = [stage.add_node(name) for name in NAMES]
    for node in nodes:
        node.on_open = saying(node, "yes")
    await until(joined(stage, len(nodes)), what="all joined")
    return nodes


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway that tells tokens, with four nodes."""
    async with staged(settings(), journal=Journal(None, JournalSettings())) as made:
        await nodes_of(made)
        yield made


def body(*texts_: str, **more: object) -> dict[str, object]:
    """A chat with this history."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts_)]
    return {"model": MODEL, "messages": messages, **more}


def session(reply: Reply) -> str:
    """The token in a reply."""
    return reply.headers["x-roost-session"]


def told(reply: Reply) -> dict[str, object]:
    """The error in a reply."""
    return cast("dict[str, object]", reply.json()["error"])


async def test_a_second_gateway_understands_the_token() -> None:
    """Keys are all that two gateways share; pins need no common state."""
    tokens: list[tuple[str, str]] = []
    async with staged(settings(gateway="g1")) as first:
        await nodes_of(first)
        for number in range(6):
            reply = await ask(first.port, "POST", CHAT, body(f"q{number}"))
            tokens.append((session(reply), reply.headers["x-roost-node"]))
    async with staged(settings(NEW, OLD, gateway="g2")) as second:
        await nodes_of(second)
        for number, (token, node) in enumerate(tokens):
            history = body(f"q{number}", "yes", "more")
            reply = await ask(second.port, "POST", CHAT, history, x_roost_session=token)
            assert reply.headers["x-roost-node"] == node
            assert reply.headers["x-roost-placement"] == "warm"
            assert session(reply).split(".")[1] == "k2"
        assert second.gateway.mind.metrics.value("roost_session_tokens_total", "accepted") == 6


async def test_the_token_may_be_in_the_body_and_is_in_streams_too(stage: Stage) -> None:
    """`roost.session` is the header's twin, in both directions."""
    first = await ask(stage.port, "POST", CHAT, body("q"))
    assert msgspec.json.decode(first.body)["roost"]["session"] == session(first)
    again = body("other", roost={"session": session(first)}, stream=True)
    reply = await ask(stage.port, "POST", CHAT, again)
    assert reply.headers["x-roost-node"] == first.headers["x-roost-node"]
    assert reply.headers["x-roost-placement"] == "warm"
    last = msgspec.json.decode(reply.events()[-2])
    assert last["roost"]["session"].startswith("rs1.")
    wrong = await ask(stage.port, "POST", CHAT, body("q", roost={"session": 7}))
    assert (wrong.status, told(wrong)["param"]) == (400, "roost.session")


@pytest.mark.parametrize("token", ["nonsense", "rs1.k9.AAAA.AAAA", "rs1.k1.AAAA.AAAA"])
async def test_an_unfit_token_is_no_error_unless_the_state_is_required(
    stage: Stage, token: str
) -> None:
    """It was a preference; who cannot do without says so, and is told that it is gone."""
    reply = await ask(stage.port, "POST", CHAT, body("q"), x_roost_session=token)
    assert (reply.status, reply.headers["x-roost-placement"]) == (200, "cold")
    assert session(reply) != token
    required = {"x_roost_session": token, "x_roost_affinity": "require"}
    gone = await ask(stage.port, "POST", CHAT, body("r"), **required)
    assert gone.status == 409
    assert told(gone)["code"] == "session_gone"


async def test_a_token_is_of_use_to_its_tenant_alone() -> None:
    """To another key it says nothing, and nobody learns whose it was."""
    keys = {
        hashlib.sha256(name.encode()).hexdigest(): Principal(TenantId(f"key:{name}"))
        for name in ("one", "two")
    }
    async with staged(settings(), by_digest(keys)) as stage:
        nodes = await nodes_of(stage)
        mine = {"authorization": "Bearer one"}
        first = await ask(stage.port, "POST", CHAT, body("q"), **mine)
        home = first.headers["x-roost-node"]
        told = {"x_roost_session": session(first), "x_roost_affinity": "require"}
        same = await ask(stage.port, "POST", CHAT, body("x"), **mine, **told)
        assert same.headers["x-roost-node"] == home
        other = await ask(stage.port, "POST", CHAT, body("x"), authorization="Bearer two", **told)
        assert other.status == 409
        assert sum(len(node.opened) for node in nodes) == 2


async def test_required_and_there_is_served_at_home(stage: Stage) -> None:
    """`require` with a home is served there, and without any past anywhere."""
    first = await ask(stage.port, "POST", CHAT, body("q"), x_roost_affinity="require")
    assert first.status == 200
    for _ in range(3):
        reply = await ask(
            stage.port,
            "POST",
            CHAT,
            body("q", "yes", "more", roost={"affinity": "require"}),
            x_roost_session=session(first),
        )
        assert reply.headers["x-roost-node"] == first.headers["x-roost-node"]
    wrong = await ask(stage.port, "POST", CHAT, body("q"), x_roost_affinity="insist")
    assert (wrong.status, told(wrong)["param"]) == (400, "x-roost-affinity")


HINTS: list[tuple[Mapping[str, object], Mapping[str, str]]] = [
    ({"prompt_cache_key": "p1"}, {}),
    *(({}, {name.decode().replace("-", "_"): "s-1"}) for name in SESSION_HEADERS),
]


@pytest.mark.parametrize(("fields", "headers"), HINTS)
async def test_hints_bring_requests_of_one_agent_together(
    stage: Stage, fields: Mapping[str, object], headers: Mapping[str, str]
) -> None:
    """Different prompts under one hint meet; a known history is followed in spite of it."""
    plain = await ask(stage.port, "POST", CHAT, body("known"))
    homes = {
        (await ask(stage.port, "POST", CHAT, body(f"q{n}", **fields), **headers)).headers[
            "x-roost-node"
        ]
        for n in range(5)
    }
    assert len(homes) == 1
    again = await ask(stage.port, "POST", CHAT, body("known", "yes", "more", **fields), **headers)
    assert again.headers["x-roost-node"] == plain.headers["x-roost-node"]


async def test_a_page_may_read_the_token(stage: Stage) -> None:
    """A browser keeps reply headers from pages unless it is told otherwise."""
    reply = await ask(stage.port, "POST", CHAT, body("q"), origin="http://localhost:3000")
    assert reply.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert "x-roost-session" in reply.headers["access-control-expose-headers"].split(", ")


async def test_a_hint_that_is_too_long_is_none(stage: Stage) -> None:
    """Nobody is refused for a hint."""
    reply = await ask(stage.port, "POST", CHAT, body("q", prompt_cache_key="x" * 1000))
    assert reply.status == 200


async def test_a_token_stands_for_a_conversations_name(stage: Stage) -> None:
    """Who has lost the name, or never had one to give, goes on with the token."""
    first = await ask(stage.port, "POST", PATH, turn("hello"))
    nameless = turn("again")
    del nameless["conversation_id"]
    second = await ask(stage.port, "POST", PATH, nameless, x_roost_session=session(first))
    assert second.status == 200
    assert events(second)[-1]["reason"] == "stop"
    third = await ask(stage.port, "POST", PATH, turn("and again"))
    mind = stage.gateway.mind
    assert third.headers["x-roost-node"] == first.headers["x-roost-node"]
    assert not mind.turns
    lost = await ask(stage.port, "POST", PATH, nameless)
    assert (lost.status, lost.json()["param"]) == (400, "conversation_id")
    chat = await ask(stage.port, "POST", CHAT, body("q"))
    other = await ask(stage.port, "POST", PATH, nameless, x_roost_session=session(chat))
    assert (other.status, other.json()["param"]) == (400, "conversation_id")


async def test_another_conversations_token_says_nothing_about_this_one(stage: Stage) -> None:
    """A client that mixes up its headers does not mix up its conversations."""
    first = await ask(stage.port, "POST", PATH, turn("one", "c1"))
    reply = await ask(stage.port, "POST", PATH, turn("two", "c2"), x_roost_session=session(first))
    assert reply.status == 200
    assert reply.headers["x-roost-placement"] == "cold"


async def test_a_gateway_without_the_words_says_where_they_are_not() -> None:
    """The token is understood, and a past that is elsewhere is not passed over in silence."""
    async with staged(settings(gateway="g1"), journal=Journal(None, JournalSettings())) as first:
        await nodes_of(first)
        token = session(await ask(first.port, "POST", PATH, turn("my secret")))
        own = await ask(first.port, "POST", PATH, turn("more"), x_roost_session=token)
        assert own.status == 200
    async with staged(settings(gateway="g2"), journal=Journal(None, JournalSettings())) as second:
        nodes = await nodes_of(second)
        reply = await ask(second.port, "POST", PATH, turn("more"), x_roost_session=token)
        assert (reply.status, reply.json()["reason"]) == (409, "transcript_elsewhere")
        assert not any(node.opened for node in nodes)
        fresh = await ask(second.port, "POST", PATH, turn("more"))
        assert fresh.status == 200
        assert [texts(n.opened[0]) for n in nodes if n.opened] == [["user: more"]]


async def test_a_required_conversation_whose_node_is_gone_is_409() -> None:
    """System 1's `session_gone`, for those who want it rather than a second prefill."""
    async with staged(settings(), journal=Journal(None, JournalSettings())) as stage:
        node = stage.add_node("only")
        node.on_open = saying(node, "ok")
        await stage.ready()
        await ask(stage.port, "POST", PATH, turn("hello"))
        other = stage.add_node("other")
        other.on_open = saying(other, "ok")
        node.leave()
        mind = stage.gateway.mind
        await until(lambda: "only" not in mind.links, what="it has left")
        await until(lambda: "other" in mind.links, what="another is there")
        await stage.ready()
        gone = await ask(stage.port, "POST", PATH, turn("x"), x_roost_affinity="require")
        assert (gone.status, gone.json()["reason"]) == (409, "session_gone")
        moved = await ask(stage.port, "POST", PATH, turn("x"))
        assert (moved.status, moved.headers["x-roost-placement"]) == (200, "lost")


async def test_a_required_home_that_is_full_has_its_own_word() -> None:
    """System 1 told a saturated sticky worker apart from a full fleet."""
    fleet = msgspec.structs.replace(SETTINGS.fleet, queue_length=0)
    full = msgspec.structs.replace(settings(), fleet=fleet)
    async with staged(full, journal=Journal(None, JournalSettings())) as stage:
        node = stage.add_node(slots=1)
        node.on_open = saying(node, "ok")
        await stage.ready()
        await ask(stage.port, "POST", PATH, turn("hello"))
        node.on_open = None
        client = await stage.client()
        client.send("POST", CHAT, body("busy"))
        await until(lambda: len(node.opened) == 2, what="its only place is taken")
        reply = await ask(stage.port, "POST", PATH, turn("more"), x_roost_affinity="require")
        assert (reply.status, reply.json()["reason"]) == (429, "worker_in_flight_decode_full")


async def test_without_keys_no_tokens_are_told() -> None:
    """A gateway that was given no keys neither signs nor reads."""
    async with staged(SETTINGS) as stage:
        await nodes_of(stage)
        reply = await ask(stage.port, "POST", CHAT, body("q"), x_roost_session="rs1.k1.AA.AA")
        assert reply.status == 200
        assert "x-roost-session" not in reply.headers
    assert Failure("session_gone", "x").status == 409


async def test_one_key_is_not_two_conversations(stage: Stage) -> None:
    """The same words under the same key, in a conversation that a token names: another request."""
    first, second = [await ask(stage.port, "POST", PATH, turn("hi", name)) for name in ("a", "b")]
    nameless = {"prompt": "more", "model": MODEL, "max_tokens": 9}

    async def more(token: str) -> Reply:
        return await ask(
            *(stage.port, "POST", PATH, nameless), idempotency_key="k", x_roost_session=token
        )

    assert (await more(session(first))).status == 200
    assert (await more(session(second))).status == 422
    assert (await more(session(first))).headers["idempotency-replayed"] == "true"


async def test_a_whole_reply_signs_one_token() -> None:
    """Its headers and its body say the same."""
    async with staged(settings()) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        client.send("POST", CHAT, body("hello"))
        await until(lambda: bool(node.opened), what="it runs")
        (live,), signed = stage.gateway.mind.turns.values(), list[str]()

        def sign(_turn: Turn) -> str:
            signed.append(f"token-{len(signed)}")
            return signed[-1]

        live.session = sign
        node.answer(node.opened[0], "Hello")
        reply = await client.reply()
        assert (signed, reply.headers["x-roost-session"]) == (["token-0"], "token-0")
        assert b'"token-0"' in reply.body
