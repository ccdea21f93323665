"""What keys may use, over the wire: refusals, headers, lists, quotas on disk, nothing leaked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from roost.core.allowance import Account, Allowance
from roost.core.events import Started
from roost.core.ids import ModelId, TenantId
from roost.errors import Failure
from roost.gateway.conversations.infer import InferSettings
from roost.gateway.front.access import Authorise, Fields, Principal, presented_key
from roost.gateway.turns.limiter import LimiterSettings
from roost.store.credentials.usage import UsageStore
from roost.store.home import Home
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Reply, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet
from tests.gateway.test_fleet_gateway import idle, opened_count
from tests.gateway.test_infer import infer, turn

CHAT = "/v1/chat/completions"
OTHER = ModelId("other")
HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}


def keyed(**allowances: Allowance) -> Authorise:
    """Let in whoever shows one of these names as a key; each pays for itself."""

    def authorise(fields: Fields) -> Principal | Failure:
        name = (presented_key(fields) or b"").decode()
        if name not in allowances:
            return Failure("unauthorized", "Who are you?")
        return Principal(TenantId(name), account=Account(name, name, allowances[name]))

    return authorise


async def say(stage: Stage, key: str, path: str = CHAT, **changes: object) -> Reply:
    """Ask with this key."""
    body = HELLO | changes
    if path == "/v1/messages":
        body |= {"max_tokens": 20}
    return await ask(stage.port, "POST", path, body, authorization=f"Bearer {key}")


def error(reply: Reply) -> dict[str, object]:
    """Read the error of a reply."""
    return msgspec.convert(reply.json()["error"], dict[str, object])


def answering(node: Puppet, *texts: str) -> None:
    """Answer everything like this: 9 tokens of prompt and one of each text."""
    node.on_open = lambda opened: node.answer(opened, *texts)


def unused(stage: Stage, *keys: str) -> Callable[[], bool]:
    """Whether nothing of these keys is under way or reserved."""
    allowances = stage.gateway.mind.limiter.allowances
    return lambda: not any(allowances.under_way(key) or allowances.reserved(key) for key in keys)


async def test_requests_of_a_minute_and_how_the_key_stands() -> None:
    """Every reply says what is left; the one too many is 429 and says when; others are free."""
    authorise = keyed(two=Allowance(requests_per_minute=2), free=Allowance())
    async with staged(authorise=authorise) as stage:
        answering(stage.add_node(), "hi")
        await stage.ready()
        first, second, third = [await say(stage, "two") for _ in range(3)]
        assert [first.status, second.status, third.status] == [200, 200, 429]
        assert first.headers["x-ratelimit-limit-requests"] == "2"
        assert first.headers["x-ratelimit-remaining-requests"] == "1"
        assert second.headers["x-ratelimit-remaining-requests"] == "0"
        assert 1 <= int(third.headers["retry-after"]) <= 30
        assert error(third)["code"] == "rate_limit_exceeded"
        assert error(third)["type"] == "rate_limit_error"
        free = await say(stage, "free")
        assert free.status == 200
        assert not [name for name in free.headers if "ratelimit" in name]
        metrics = stage.gateway.metrics
        assert metrics.value("roost_limited_total", "two", "requests") == 1
        await until(unused(stage, "two", "free"), what="nothing is left reserved")
        assert metrics.value("roost_tenant_requests_total", "two") == 3
        assert metrics.value("roost_tenant_tokens_total", "two") == 20


async def test_tokens_are_those_that_were_taken() -> None:
    """What was reserved for an answer comes back, so that the next request finds room."""
    authorise = keyed(few=Allowance(tokens_per_minute=100))
    async with staged(authorise=authorise) as stage:
        answering(stage.add_node(), "one", "two")
        await stage.ready()
        for left in (89, 78):
            reply = await say(stage, "few", "/v1/messages")
            assert reply.status == 200
            await until(unused(stage, "few"), what="it is settled")
            account = Account("few", "few", Allowance(tokens_per_minute=100))
            headers = dict(stage.gateway.mind.limiter.headers(account, anthropic=True))
            assert headers[b"anthropic-ratelimit-tokens-limit"] == b"100"
            assert int(headers[b"anthropic-ratelimit-tokens-remaining"]) >= left
            assert reply.headers["anthropic-ratelimit-tokens-reset"].endswith("Z")
        refused = await say(stage, "few", max_tokens=90)
        assert (refused.status, refused.headers["x-ratelimit-limit-tokens"]) == (429, "100")
        told = await say(stage, "few", "/v1/messages/count_tokens")
        assert told.status == 200, "to count takes no tokens"


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/coordinator/infer"])
async def test_places_are_given_back_whatever_happens(path: str) -> None:
    """One at a time: an answer, a failure, a refusal, a client that leaves: the next is let in."""
    settings = msgspec.structs.replace(SETTINGS, infer=infer(InferSettings()))
    async with staged(settings, keyed(one=Allowance(at_once=1))) as stage:
        node = stage.add_node()
        await stage.ready()
        body = turn("hello") if path == "/coordinator/infer" else HELLO
        body = {**body, "max_tokens": 5, "input": "hello", "stream": True}
        for number, ending in enumerate(ENDINGS, start=1):
            client = await stage.client()
            client.send("POST", path, body, authorization="Bearer one")
            await until(partial(opened_count, node, number), what="it runs")
            second = await ask(stage.port, "POST", path, body, authorization="Bearer one")
            assert second.status == 429
            assert second.headers["retry-after"] == "2"
            opened = node.opened[-1]
            if ending == "leaves":
                client.close()
                await until(partial(_is_cancelled, node, opened), what="it is cancelled")
                node.release(opened.stream)
            else:
                ending_of[ending](node, opened)
                await client.reply()
            await until(unused(stage, "one"), what=f"its place is free: {ending}")
        await until(lambda: idle(stage), what="all leases are given back")


def _is_cancelled(node: Puppet, opened: Open) -> bool:
    return opened.stream in node.cancelled


def _fails(node: Puppet, opened: Open) -> None:
    node.refuse(opened.stream, Failure("bad_request", "No."))


ending_of: dict[str, Callable[[Puppet, Open], None]] = {
    "answers": lambda node, opened: node.answer(opened, "hi"),
    "fails": _fails,
}
ENDINGS = ("answers", "fails", "leaves", "answers")


async def test_several_choices_are_one_request() -> None:
    """They have one place, which is free when the last of them has ended."""
    limited = Allowance(requests_per_minute=2, at_once=1)
    async with staged(authorise=keyed(one=limited)) as stage:
        answering(stage.add_node(slots=2), "hi")
        await stage.ready()
        for status in (200, 200, 429):
            assert (await say(stage, "one", n=2)).status == status
            await until(unused(stage, "one"), what="nothing is left reserved")


@pytest.mark.parametrize("ended", [0, 1])
async def test_the_place_of_several_choices_is_kept_for_the_last(ended: int) -> None:
    """One of them has ended, whichever: the key still has one request under way."""
    async with staged(authorise=keyed(one=Allowance(at_once=1))) as stage:
        node = stage.add_node(slots=2)
        await stage.ready()
        client = await stage.client()
        client.send("POST", CHAT, {**HELLO, "n": 2}, authorization="Bearer one")
        await until(partial(opened_count, node, 2), what="both run")
        node.answer(node.opened[ended], "hi")
        live = stage.gateway.mind.turns
        await until(lambda: len(live) == 1, what="one of them is over")
        assert (await say(stage, "one")).status == 429
        node.answer(node.opened[1 - ended], "hi")
        assert (await client.reply()).status == 200
        await until(unused(stage, "one"), what="the place is free")


async def test_a_turn_reserves_what_it_says() -> None:
    """As far as it is known when it comes: its own text and its answer."""
    settings = msgspec.structs.replace(SETTINGS, infer=infer(InferSettings()))
    limited = Allowance(tokens_per_minute=1000)
    async with staged(settings, keyed(one=limited)) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        body = {**turn("x" * 400), "max_tokens": 50}
        client.send("POST", "/coordinator/infer", body, authorization="Bearer one")
        await until(partial(opened_count, node, 1), what="it runs")
        assert stage.gateway.mind.limiter.allowances.reserved("one") == 400 / 4 + 50
        node.answer(node.opened[0], "hi")
        assert (await client.reply()).status == 200
        await until(unused(stage, "one"), what="it is settled")


async def test_a_key_sees_and_asks_the_models_it_may_use() -> None:
    """Others are not in its list, and are refused in the same words as those that do not exist."""
    authorise = keyed(some=Allowance(models=("mine",)), all=Allowance())
    generation = msgspec.structs.replace(SETTINGS.generation, aliases={"mine": MODEL, "x": OTHER})
    async with staged(msgspec.structs.replace(SETTINGS, generation=generation), authorise) as stage:
        answering(stage.add_node(models=(MODEL, OTHER)), "hi")
        await stage.ready()

        async def listed(key: str) -> Sequence[object]:
            reply = await ask(stage.port, "GET", "/v1/models", authorization=f"Bearer {key}")
            return [one["id"] for one in msgspec.json.decode(reply.body)["data"]]

        for path, names in (("/api/tags", {MODEL, "mine"}), ("/api/ps", {MODEL})):
            tags = await ask(stage.port, "GET", path, authorization="Bearer some")
            assert {one["model"] for one in msgspec.json.decode(tags.body)["models"]} == names
        assert await listed("all") == [OTHER, MODEL, "mine", "x"]
        assert await listed("some") == [MODEL, "mine"]
        for model, status in ((MODEL, 200), ("mine", 200), (OTHER, 403), ("x", 403), ("no", 403)):
            for path, kind in ((CHAT, "permission_error"), ("/v1/messages", "permission_error")):
                reply = await say(stage, "some", path, model=model)
                assert reply.status == status
                if status == 403:
                    assert error(reply)["type"] == kind
            found = await ask(stage.port, "GET", f"/v1/models/{model}", x_api_key="some")
            assert found.status == (200 if status == 200 else 404)
        assert (await say(stage, "all", model=OTHER)).status == 200
        # Who asks for nothing but that a model goes learns nothing of what there is.
        for key, code in (("some", "model_not_allowed"), ("all", "forbidden")):
            wished = []
            for model in (OTHER, "no"):
                body = {"model": model, "keep_alive": 0}
                shown = {"authorization": f"Bearer {key}"}
                reply = await ask(stage.port, "POST", "/api/generate", body, **shown)
                wished.append((reply.status, str(reply.json()["error"]).replace(f"`{model}`", "")))
            assert wished[0] == wished[1], code
            assert wished[0][0] == 403


async def test_a_quota_survives_a_restart(tmp_path: Path) -> None:
    """What was used before counts; the key is told not to knock again, and when it may."""
    home = Home.open(tmp_path / "home")
    authorise = keyed(small=Allowance(tokens_per_month=15), big=Allowance(tokens_per_day=1000))
    settings = msgspec.structs.replace(SETTINGS, limiter=LimiterSettings(save_s=0.01))
    for statuses in ((200, 200, 429), (429, 429, 429)):
        async with staged(settings, authorise, usage=UsageStore.open(home)) as stage:
            answering(stage.add_node(), "hi")
            await stage.ready()
            for status in statuses:
                assert (await say(stage, "small")).status == status
                await until(unused(stage, "small"), what="it is settled")
            told = error(await say(stage, "small"))
            assert told["code"] == "insufficient_quota"
            assert "begin anew" in str(told["message"])
            assert (await say(stage, "big")).status == 200
    store = UsageStore.open(home)
    assert {one.key: one.tokens for one in store.since(0)} == {"small": 20, "big": 20}
    store.close()


async def test_salts_are_the_only_way_to_share(tmp_path: Path) -> None:
    """To a node all with one salt are one tenant; without it every tenant is its own."""

    def authorise(fields: Fields) -> Principal:
        name = (presented_key(fields) or b"").decode()
        salt = TenantId("\0salted" if name.startswith("with") else "")
        return Principal(TenantId(name), account=Account(name, name), shares_as=salt)

    async with staged(authorise=authorise) as stage:
        node = stage.add_node()
        answering(node, "hi")
        await stage.ready()
        for name in ("with-a", "with-b", "alone-a", "alone-b"):
            assert (await say(stage, name)).status == 200
        assert [one.tenant for one in node.opened] == ["\0salted"] * 2 + ["alone-a", "alone-b"]
        rows = stage.gateway.mind.telemetry.rows
        for name in ("with-a", "with-b", "alone-a"):
            assert len(rows(TenantId(name), stage.gateway.mind.now_s, {})) == 1, (
                "it pays for its own"
            )


async def test_a_stream_says_how_the_key_stands_when_it_begins() -> None:
    """Headers of a stream have left before its tokens are known: they count what is reserved."""
    authorise = keyed(one=Allowance(tokens_per_minute=1000, requests_per_minute=5))
    async with staged(authorise=authorise) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        body = {**HELLO, "stream": True, "max_tokens": 100}
        client.send("POST", CHAT, body, authorization="Bearer one")
        await until(lambda: opened_count(node, 1), what="it runs")
        node.say(node.opened[0].stream, Started(prompt_tokens=9, cached_tokens=0, slot=0))
        node.answer(node.opened[0], "hi")
        reply = await client.reply()
        assert reply.clean
        # In a second some seventeen come back.
        assert 898 <= int(reply.headers["x-ratelimit-remaining-tokens"]) < 990
        assert reply.headers["x-ratelimit-remaining-requests"] == "4"
