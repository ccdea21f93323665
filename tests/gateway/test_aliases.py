"""Other names of models: asked for by them, listed with them, and one runtime for all names."""

from __future__ import annotations

import msgspec
import pytest

from roost.gateway.conversations.infer import InferSettings
from tests.gateway.conftest import SETTINGS, ask, staged
from tests.gateway.puppet import MODEL

ALIASES = {"gpt-4o": str(MODEL), "ghost": "not-here"}
SPOKEN = msgspec.structs.replace(
    SETTINGS,
    generation=msgspec.structs.replace(SETTINGS.generation, aliases=ALIASES),
    infer=InferSettings(aliases=ALIASES),
)
MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("size", [1, 200_000])
async def test_a_model_is_asked_for_by_another_name(size: int) -> None:
    """The node is asked for the model itself, which the answer names; large bodies the same."""
    async with staged(SPOKEN) as stage:
        node = stage.add_node()
        node.on_open = lambda opened: node.answer(opened, "hi")
        await stage.ready()
        body = {"model": "gpt-4o", "messages": MESSAGES, "user": "x" * size}
        reply = await ask(stage.port, "POST", "/v1/chat/completions", body)
        assert reply.status == 200
        assert msgspec.json.decode(reply.body)["model"] == MODEL
        assert [opened.request.model for opened in node.opened] == [MODEL]


async def test_a_conversation_by_another_name() -> None:
    """The same holds for the protocol of conversations with a name."""
    async with staged(SPOKEN) as stage:
        node = stage.add_node()
        node.on_open = lambda opened: node.answer(opened, "hi")
        await stage.ready()
        body = {"conversation_id": "c", "prompt": "hello", "model": "gpt-4o", "max_tokens": 4}
        reply = await ask(stage.port, "POST", "/coordinator/infer", body)
        assert reply.status == 200
        assert [opened.request.model for opened in node.opened] == [MODEL]


async def test_names_are_listed_while_their_model_is_there() -> None:
    """A name for what nobody serves is not listed, and asking for it is 404."""
    async with staged(SPOKEN) as stage:
        stage.add_node()
        await stage.ready()
        listed = msgspec.json.decode((await ask(stage.port, "GET", "/v1/models")).body)
        assert [one["id"] for one in listed["data"]] == [MODEL, "gpt-4o"]
        assert (await ask(stage.port, "GET", "/v1/models/gpt-4o")).status == 200
        body = {"model": "ghost", "messages": MESSAGES}
        assert (await ask(stage.port, "POST", "/v1/chat/completions", body)).status == 404


async def test_names_and_limits_change_while_it_runs() -> None:
    """New names count at once, old ones are gone, and so it is with what a body may be."""
    async with staged(SPOKEN) as stage:
        node = stage.add_node()
        node.on_open = lambda opened: node.answer(opened, "hi")
        await stage.ready()
        limits = msgspec.structs.replace(SETTINGS.limits, body_max_bytes=1000)
        generation = msgspec.structs.replace(SETTINGS.generation, aliases={"new": str(MODEL)})
        infer = InferSettings(aliases={"new": str(MODEL)})
        stage.gateway.use(
            msgspec.structs.replace(SETTINGS, generation=generation, infer=infer, limits=limits)
        )
        listed = msgspec.json.decode((await ask(stage.port, "GET", "/v1/models")).body)
        assert [one["id"] for one in listed["data"]] == [MODEL, "new"]
        for name, status in (("new", 200), ("gpt-4o", 404)):
            chat = {"model": name, "messages": MESSAGES}
            assert (await ask(stage.port, "POST", "/v1/chat/completions", chat)).status == status
            turn = {"conversation_id": "c", "prompt": "x", "model": name, "max_tokens": 4}
            assert (await ask(stage.port, "POST", "/coordinator/infer", turn)).status == status
        large = {"model": "new", "messages": MESSAGES, "user": "x" * 1000}
        assert (await ask(stage.port, "POST", "/v1/chat/completions", large)).status == 413
