"""The scripted backend does what it is told, byte by byte."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import SlotUse
from roost.backends.scripted.backend import ScriptedBackend, ScriptedRuntime
from roost.backends.scripted.prompts import BOS
from roost.backends.scripted.script import Script
from roost.core.events import Delta, Failed, Finished, PrefillProgress, Started, StreamEvent, Usage
from roost.core.model import Manifest
from roost.core.request import (
    ChatPrompt,
    GenerateRequest,
    JsonSchema,
    Message,
    Offer,
    Sampling,
    TextPrompt,
    Tool,
)
from roost.errors import RoostError
from roost.text.answers import read_answer
from tests.backends.subjects import MODEL, key_of, settings_in


async def start(folder: Path, script: Script | None = None, *, ctx: int = 512) -> ScriptedRuntime:
    """Start a runtime that does not wait."""
    manifest = Manifest(MODEL, "", 0, "sha256:0", format="scripted")
    key = key_of("scripted", ctx=ctx, batch=16)
    return await ScriptedBackend(script).start(
        key, manifest, settings_in(folder, 0.05), lambda _: None
    )


def says(text: str, sampling: Sampling | None = None) -> GenerateRequest:
    """Make a chat of one message."""
    prompt = ChatPrompt((Message("user", text),))
    return GenerateRequest(MODEL, prompt, sampling=sampling or Sampling())


async def run(
    runtime: ScriptedRuntime, request: GenerateRequest, slot: int = 0
) -> list[StreamEvent]:
    """Run a request to its end."""
    prepared = await runtime.prepare(request)
    async with runtime.open(prepared, SlotUse(slot, reuse=True)) as events:
        return [event async for event in events]


def text_of(events: list[StreamEvent]) -> str:
    """Join the deltas."""
    return "".join(event.text for event in events if isinstance(event, Delta))


async def test_repeats_the_last_message(tmp_path: Path) -> None:
    """Without a script the answer is the last message, in words, with exact counts."""
    events = await run(await start(tmp_path), says("hello  brave 世界"))
    prompt = len("^<user\nhello  brave 世界><assistant\n".encode())
    assert events[0] == Started(prompt, 0, 0)
    assert events[1] == PrefillProgress(16, prompt)
    words = [event for event in events if isinstance(event, Delta)]
    assert [word.text for word in words] == ["hello", "  brave", " ", "世", "界"]
    assert sum(word.tokens for word in words) == len("hello  brave 世界".encode())
    assert events[-1] == Finished("stop", Usage(prompt, 0, 19))


TRICKY = "naïve 😀 歪 שלום"


@pytest.mark.parametrize("ids", [False, True], ids=["text", "tokens"])
async def test_characters_cut_by_tokens_arrive_whole(tmp_path: Path, *, ids: bool) -> None:
    """A byte at a time, whole characters come out; one that the limit cuts is one U+FFFD."""
    script = Script(pieces=(TRICKY,))
    whole = len(TRICKY.encode())
    for limit in range(1, whole + 1):
        request = msgspec.structs.replace(says("x"), max_tokens=limit, return_tokens=ids)
        events = await run(await start(tmp_path, script), request)
        half = TRICKY.encode()[:limit].decode("utf-8", "replace")
        assert text_of(events) == half
        assert half.count("\ufffd") <= 1
        assert sum(one.tokens for one in events if isinstance(one, Delta)) == limit


async def test_tools_are_told_in_the_generic_way(tmp_path: Path) -> None:
    """An engine of text gets tools as words, begins a demanded call and is held to its schema."""
    schema = '{"type":"object","properties":{"at":{"type":"integer"}},"required":["at"]}'
    offer = Offer((Tool("look", "Looks.", schema),), "required")
    request = GenerateRequest(MODEL, ChatPrompt((Message("user", "hi"),), offer))
    runtime = await start(tmp_path, Script(pieces=("I would rather talk.",)), ctx=4096)
    prepared = await runtime.prepare(request)
    prompt = bytes(token for token in prepared.tokens if token < 256).decode()
    assert '{"name": "look", "description": "Looks."' in prompt
    assert prompt.endswith('<tool_call>\n{"name": "look", "arguments":')
    assert prepared.request.constraint == JsonSchema(schema)
    events = await run(runtime, request)
    finished = events[-1]
    assert isinstance(finished, Finished)
    (call,) = read_answer(text_of(events), prepared.reading, finished).calls
    assert set(json.loads(call.arguments)) == {"at"}


@pytest.mark.parametrize("schema", ['{"not":{}}', '{"type":"wibble"}', '{"enum":[]}'])
async def test_a_call_whose_schema_cannot_be_followed_is_not_promised(
    schema: str, tmp_path: Path
) -> None:
    """Demanded, it is the caller's mistake, named by its field; offered, a model may call it."""
    runtime = await start(tmp_path, ctx=4096)

    def asks(offer: Offer) -> GenerateRequest:
        return GenerateRequest(MODEL, ChatPrompt((Message("user", "hi"),), offer))

    tools = (Tool("look", "", schema),)
    with pytest.raises(RoostError, match="tool_choice") as refused:
        await runtime.prepare(asks(Offer(tools, "required")))
    assert (refused.value.failure.status, refused.value.failure.param) == (400, "tools")
    assert (await runtime.prepare(asks(Offer(tools)))).reading is not None


async def test_reversible_tokens(tmp_path: Path) -> None:
    """Text becomes its bytes after one BOS."""
    prepared = await (await start(tmp_path)).prepare(GenerateRequest(MODEL, TextPrompt("aé")))
    assert prepared.tokens == (BOS, 97, 0xC3, 0xA9)


async def test_a_script_in_the_prompt_wins(tmp_path: Path) -> None:
    """A line of the last message says what comes out; other messages do not."""
    runtime = await start(tmp_path, Script(("default",)))
    assert text_of(await run(runtime, says("x"))) == "default"
    script = 'please\n@script {"pieces": ["a", "b"]}\nthanks'
    assert text_of(await run(runtime, says(script))) == "ab"
    later = ChatPrompt((Message("user", script), Message("user", "y")))
    assert text_of(await run(runtime, GenerateRequest(MODEL, later))) == "default"


@pytest.mark.parametrize(
    "script", ["{", "[]", '{"piece": []}', '{"delay_ms": -1}', '{"delay_ms": 1e9}']
)
async def test_a_wrong_script_is_a_bad_request(script: str, tmp_path: Path) -> None:
    """A script that cannot be followed is refused before anything runs."""
    runtime = await start(tmp_path)
    with pytest.raises(RoostError) as caught:
        await runtime.prepare(says(f"@script {script}"))
    assert caught.value.failure.reason == "bad_request"


async def test_failing_dying_and_hanging(tmp_path: Path) -> None:
    """Errors, death and silence come after as many pieces as the script says."""
    runtime = await start(tmp_path)
    events = await run(runtime, says('@script {"pieces": ["a", "b", "c"], "fail_after": 2}'))
    assert text_of(events) == "ab"
    assert isinstance(events[-1], Failed)
    assert events[-1].failure.reason == "runtime_error"
    assert events[-1].usage.completion_tokens == 2
    prepared = await runtime.prepare(says('@script {"pieces": ["a", "b"], "hang_after": 1}'))
    async with runtime.open(prepared, SlotUse(1, reuse=True)) as stream:
        async for event in stream:
            if isinstance(event, Delta):
                break
        assert (await runtime.telemetry()).live == 1
    assert (await runtime.telemetry()).live == 0
    events = await run(runtime, says('@script {"pieces": ["a", "b"], "die_after": 1}'))
    assert isinstance(events[-1], Failed)
    assert events[-1].failure.reason == "runtime_died"
    assert runtime.died.is_set()


@pytest.mark.parametrize("ids", [False, True], ids=["text", "tokens"])
async def test_a_failure_tells_what_was_said_before_it(tmp_path: Path, *, ids: bool) -> None:
    """Text that might have begun a stop string comes out, and the tokens told are those counted.

    Only where the runtime is gone and another may go on behind whole tokens is it kept in.
    """
    runtime = await start(tmp_path)
    for fault, text, tokens in (("fail", "hel", 3), ("die", "" if ids else "hel", 0 if ids else 3)):
        words = f'@script {{"pieces": ["hel", "lo"], "{fault}_after": 1}}'
        request = msgspec.structs.replace(says(words), stop=("help",), return_tokens=ids)
        events = await run(runtime, request)
        assert text_of(events) == text
        assert sum(one.tokens for one in events if isinstance(one, Delta)) == tokens
        assert isinstance(events[-1], Failed)
        assert events[-1].usage.completion_tokens == tokens


async def test_prefixes_are_cached_per_slot(tmp_path: Path) -> None:
    """A slot knows what it held: the second turn computes what is new, another slot all of it."""
    runtime = await start(tmp_path)
    first = says("hello")
    answer = text_of(await run(runtime, first))
    turns = (Message("user", "hello"), Message("assistant", answer), Message("user", "again"))
    second = GenerateRequest(MODEL, ChatPrompt(turns))
    held = len((await runtime.prepare(first)).tokens) + len(answer)
    new = len("><user\nagain><assistant\n")
    assert (await run(runtime, second, 1))[0] == Started(held + new, 0, 1)
    assert (await run(runtime, second, 0))[0] == Started(held + new, held, 0)
    assert (await runtime.telemetry()).kv_tokens == 2 * (held + new + len("again"))


async def test_a_seed_changes_the_words(tmp_path: Path) -> None:
    """Two seeds differ, one repeats, none adds nothing."""
    runtime = await start(tmp_path)
    texts = [text_of(await run(runtime, says("x", Sampling(seed=seed)))) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert text_of(await run(runtime, says("x"))) == "x"


async def test_a_slot_is_not_shared(tmp_path: Path) -> None:
    """Two streams on one slot are a defect of the node, and told as one."""
    runtime = await start(tmp_path)
    prepared = await runtime.prepare(says("x"))
    async with runtime.open(prepared, SlotUse(0, reuse=True)):
        with pytest.raises(RoostError) as caught:
            async with runtime.open(prepared, SlotUse(0, reuse=True)):
                pass
    assert caught.value.failure.reason == "internal"


async def test_slow_release_is_an_error(tmp_path: Path) -> None:
    """A slot that is not free in time ends the block with an error, and the answer is over."""
    runtime = await start(tmp_path, Script(release_ms=5000))
    prepared = await runtime.prepare(says("x"))
    with pytest.raises(RoostError, match="did not become free"):
        async with runtime.open(prepared, SlotUse(0, reuse=True)) as events:
            await anext(events)
    assert (await runtime.telemetry()).live == 0


async def test_a_broken_model_does_not_load(tmp_path: Path) -> None:
    """A manifest can say that its model is broken."""
    manifest = Manifest(MODEL, "", 0, "sha256:0", format="broken")
    with pytest.raises(RoostError) as caught:
        await ScriptedBackend().start(
            key_of("scripted"), manifest, settings_in(tmp_path), lambda _: None
        )
    assert caught.value.failure.reason == "load_failed"


async def test_the_models_own_context_is_the_most(tmp_path: Path) -> None:
    """A context of 0 is the model's own, and a larger one is cut to it."""
    manifest = Manifest(MODEL, "", 0, "sha256:0", format="scripted", ctx_train=64)
    for ctx in (0, 4096):
        runtime = await ScriptedBackend().start(
            key_of("scripted", ctx=ctx), manifest, settings_in(tmp_path), lambda _: None
        )
        prepared = await runtime.prepare(GenerateRequest(MODEL, TextPrompt("abc")))
        assert prepared.limit == 60
