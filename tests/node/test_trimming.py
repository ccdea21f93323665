"""The runtime's own count says how many turns have to go, and as few as possible do."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.backends.base import Prepared
from roost.core.ids import ModelId
from roost.core.request import ChatPrompt, GenerateRequest, Message, TextPrompt
from roost.errors import RoostError, fail
from roost.node.meter import left_out
from roost.node.prompts.trimming import prepared
from tests.backends.test_scripted import start

PAST = tuple(
    Message(role, f"{number} " + "x" * 40) for number in range(6) for role in ("user", "assistant")
)
LAST = Message("user", "last")


def asking(
    *messages: Message, trims: bool = True, limit: int | None = 10, last: Message = LAST
) -> GenerateRequest:
    """Ask with this past for so many tokens."""
    prompt = ChatPrompt((Message("system", "Be kind."), *messages, last), trims=trims)
    return GenerateRequest(ModelId("scripted"), prompt, limit)


async def test_the_fewest_turns_are_left_out(tmp_path: Path) -> None:
    """With one turn more it would not fit; what is left is counted by the runtime itself."""
    runtime = await start(tmp_path, ctx=256)
    asked = asking(*PAST)
    made = await prepared(runtime.prepare, asked)
    gone = left_out(asked, made)
    assert 0 < gone < len(PAST)
    assert made.limit == 10
    prompt = made.request.prompt
    assert isinstance(prompt, ChatPrompt)
    assert (prompt.messages[0].content, prompt.messages[-1]) == ("Be kind.", LAST)
    assert prompt.messages[1:-1] == PAST[gone:]
    fuller = asking(*PAST[gone - 2 :], trims=False)
    with pytest.raises(RoostError, match="prompt is too long"):
        await runtime.prepare(fuller)


async def test_what_fits_is_left_as_it_is(tmp_path: Path) -> None:
    """One preparation, and nothing is missing."""
    runtime = await start(tmp_path, ctx=4096)
    asked = asking(*PAST)
    made = await prepared(runtime.prepare, asked)
    assert made.request == asked
    assert left_out(asked, made) == 0


async def test_what_nothing_helps(tmp_path: Path) -> None:
    """A last turn that is too long by itself is refused, and so is all without the wish."""
    runtime = await start(tmp_path, ctx=64)
    long = msgspec.structs.replace(LAST, content="y" * 99)
    for asked in (asking(*PAST, last=long), asking(*PAST, trims=False)):
        with pytest.raises(RoostError) as caught:
            await prepared(runtime.prepare, asked)
        assert caught.value.failure.reason == "context_length_exceeded"
    text = GenerateRequest(ModelId("scripted"), TextPrompt("z" * 99))
    with pytest.raises(RoostError, match="too long"):
        await prepared(runtime.prepare, text)


@given(st.integers(0, 40), st.integers(1, 400), st.integers(1, 60))
async def test_never_more_than_needed(turns: int, ctx: int, limit: int) -> None:
    """For any past and any room: what is left fits if anything does, and one turn more does not."""

    async def prepare(request: GenerateRequest) -> Prepared:
        assert isinstance(request.prompt, ChatPrompt)
        tokens = 10 * len(request.prompt.messages)
        if tokens >= ctx:
            raise too_long()
        return Prepared(request, (1,) * tokens, min(ctx - tokens, limit))

    messages = tuple(Message("user", str(number)) for number in range(turns))
    asked = asking(*messages, limit=limit)
    try:
        made = await prepared(prepare, asked)
    except RoostError:
        assert ctx <= 20, "the system's words and the last turn have no room"
        return
    gone = left_out(asked, made)
    room = 10 * (2 + turns - gone) + min(limit, 10 * (2 + turns - gone))
    assert room <= ctx or gone == turns
    if gone:
        more = 10 * (3 + turns - gone)
        assert more + min(limit, more) > ctx


def too_long() -> RoostError:
    """Make the refusal of a runtime."""
    return fail("context_length_exceeded", "prompt is too long")
