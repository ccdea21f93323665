"""The adapter of llama.cpp against a faithful fake: its starts, its requests, its faults."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from roost.backends.base import Prepared, SlotUse, StartSettings
from roost.backends.llama.runtime import LlamaRuntime
from roost.backends.llama.server import LlamaServer
from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Usage
from roost.core.model import Manifest
from roost.core.request import ChatPrompt, GenerateRequest, Message, Sampling, TextPrompt
from roost.errors import RoostError
from tests.backends.subjects import (
    FAKE,
    MODEL,
    fake_manifest,
    key_of,
    kill_server,
    settings_in,
)
from tests.children import living, seen, settled_descriptors
from tests.conftest import Eventually

pytestmark = pytest.mark.slow


def ignore(_part: float) -> None:
    """Take no interest in progress."""


async def start(
    folder: Path,
    manifest: Manifest | None = None,
    *,
    ctx: int = 1024,
    path: Path = FAKE,
    release_timeout_s: float = 60.0,
) -> LlamaRuntime:
    """Start the fake server; whoever starts it stops it."""
    settings = settings_in(folder, release_timeout_s)
    settings = msgspec.structs.replace(settings, start_timeout_s=60.0)
    key = key_of("llama_server", ctx=ctx, batch=64)
    return await LlamaServer(str(path)).start(
        key, manifest or fake_manifest(folder), settings, ignore
    )


@asynccontextmanager
async def running(folder: Path, **model: object) -> AsyncIterator[LlamaRuntime]:
    """Give a runtime that is stopped in the end."""
    runtime = await start(folder, fake_manifest(folder, **model))
    try:
        yield runtime
    finally:
        await runtime.stop(2.0)


async def run(
    runtime: LlamaRuntime, prompt: str, sampling: Sampling | None = None, *, slot: int = 0
) -> list[StreamEvent]:
    """Complete a text and give all events."""
    request = GenerateRequest(MODEL, TextPrompt(prompt), sampling=sampling or Sampling())
    prepared = await runtime.prepare(request)
    async with runtime.open(prepared, SlotUse(slot, reuse=True)) as events:
        return [event async for event in events]


def text_of(events: list[StreamEvent]) -> str:
    """Join the deltas."""
    return "".join(event.text for event in events if isinstance(event, Delta))


async def refused(
    folder: Path,
    manifest: Manifest | None = None,
    path: Path = FAKE,
    reason: str = "load_failed",
) -> str:
    """Give the message with which a start fails; nothing may be left of it."""
    with pytest.raises(RoostError) as caught:
        await start(folder, manifest, path=path)
    assert caught.value.failure.reason == reason
    assert _left(folder) == []
    assert str(folder) not in caught.value.failure.message
    return caught.value.failure.message


def _left(folder: Path) -> list[str]:
    """List what a runtime has left behind: files where it listened, and processes."""
    run = folder / "run"
    files = [path.name for path in run.rglob("*")] if run.exists() else []
    return files + seen(living(recursive=True), psutil.Process.name)


def _sent(folder: Path) -> list[dict[str, object]]:
    """Give the completions that the fake has printed."""
    lines = (folder / "runtime.log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


async def test_a_program_that_ends_has_its_last_words(tmp_path: Path) -> None:
    """Where nothing says why, the last line of the log does, without what is nobody's business."""
    secret = "ab" * 32
    words = f"cannot map {tmp_path}/model.json with {secret} \x1b[31m" + "x" * 500
    message = await refused(tmp_path, fake_manifest(tmp_path, last_words=words))
    head = "The runtime ended while it loaded the model (status 3); its last words: "
    assert message.startswith(head + "cannot map … with …")
    assert secret not in message
    assert "\x1b" not in message
    assert len(message) <= len(head) + 300


async def test_what_is_sent(tmp_path: Path) -> None:
    """Every completion names its slot and streams with progress; only what was asked for is set."""
    async with running(tmp_path) as runtime:
        events = await run(runtime, "hi there")
        sampling = Sampling(0.5, 0.9, 40, 0.1, 2**32 - 1, 1.0, -1.0)
        await run(runtime, "hi there", sampling, slot=1)
    assert events[0] == Started(9, 0, 0)
    assert text_of(events) == "hi there"
    assert events[-1] == Finished("stop", Usage(9, 0, 8))
    plain, full = _sent(tmp_path)[-2:]
    assert plain.pop("response_fields")
    assert plain == {
        "n_predict": 1015,
        "id_slot": 0,
        "cache_prompt": True,
        "stream": True,
        "return_progress": True,
        "ignore_eos": False,
    }
    wanted = {"id_slot": 1, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1}
    # The largest seed means "no seed" to llama.cpp, so its neighbour stands in for it.
    wanted |= {"seed": 2**32 - 2, "presence_penalty": 1.0, "frequency_penalty": -1.0}
    assert {name: full[name] for name in wanted} == wanted


async def test_it_listens_where_only_we_can_reach_it(tmp_path: Path) -> None:
    """The socket lies in a folder of our own, and the key is in a file and in no process list."""
    async with running(tmp_path) as runtime:
        (folder,) = (tmp_path / "run").iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        key = (folder / "key").read_text()
        assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600
        assert (folder / "llama.sock").is_socket()
        shim = psutil.Process(runtime.pid)
        lines = [" ".join(process.cmdline()) for process in (shim, *shim.children())]
        assert len(key) == 64
        assert not any(key in line for line in lines)
    assert _left(tmp_path) == []


async def test_a_deep_folder_is_replaced(tmp_path: Path) -> None:
    """Where the path of a socket would be too long for the kernel, a short one is found."""
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    runtime = await start(deep, fake_manifest(tmp_path))
    try:
        assert text_of(await run(runtime, "hi")) == "hi"
        assert _left(deep)[0:1] != ["llama.sock"]
    finally:
        await runtime.stop(2.0)


async def test_tcp_where_sockets_are_not_understood(tmp_path: Path) -> None:
    """A binary that cannot listen in a folder gets a port of 127.0.0.1."""
    old = tmp_path / "old-llama-server"
    old.write_text(FAKE.read_text().replace("UNIX socket", "nothing else"))
    old.chmod(0o700)
    runtime = await start(tmp_path, path=old)
    try:
        assert text_of(await run(runtime, "hi")) == "hi"
        (program,) = psutil.Process(runtime.pid).children()
        assert {c.laddr.ip for c in program.net_connections("tcp")} == {"127.0.0.1"}
    finally:
        await runtime.stop(2.0)


async def test_context_is_the_models_own_at_most(tmp_path: Path) -> None:
    """A context of 0 is the model's own; what the server really has counts in the end."""
    for ctx, model, room in ((0, {}, 1022), (4096, {}, 1022), (512, {"ctx": 300}, 298)):
        runtime = await start(tmp_path, fake_manifest(tmp_path, **model), ctx=ctx)
        try:
            prepared = await runtime.prepare(GenerateRequest(MODEL, TextPrompt("x")))
            assert prepared.limit == room
        finally:
            await runtime.stop(2.0)


async def test_user_text_becomes_no_control_token(tmp_path: Path) -> None:
    """Control tokens of the template are tokens, those in a message are bytes, BOS comes once."""
    async with running(tmp_path) as runtime:
        chat = ChatPrompt((Message("user", "a<|im_end|><s>b"),))
        tokens = (await runtime.prepare(GenerateRequest(MODEL, chat))).tokens
        text = (await runtime.prepare(GenerateRequest(MODEL, TextPrompt("<|im_end|>")))).tokens
    assert [token for token in tokens if token > 255] == [256, 257, 258, 257]
    assert b"a<|im_end|><s>b" in bytes(token for token in tokens if token < 256)
    assert text == (256, *b"<|im_end|>")


async def test_base_models_do_not_chat(tmp_path: Path) -> None:
    """Without a template a chat is refused, never guessed, and text is completed."""
    manifest = msgspec.structs.replace(fake_manifest(tmp_path), chat_template=None)
    runtime = await start(tmp_path, manifest)
    try:
        chat = GenerateRequest(MODEL, ChatPrompt((Message("user", "x"),)))
        with pytest.raises(RoostError, match="no chat template") as caught:
            await runtime.prepare(chat)
        assert (caught.value.failure.reason, caught.value.failure.param) == (
            "unsupported",
            "messages",
        )
        assert text_of(await run(runtime, "x")) == "x"
    finally:
        await runtime.stop(2.0)


FAULTS = {
    "status 500": "refused the request with status 500",
    "status 401": "refused the request with status 401",
    "close 2": "its answer was cut off",
    "error 2": "it reported an error of code 500",
    "full 2": "its context memory is full",
    "nonsense 2": "it broke the protocol",
}


async def test_faults_end_the_stream_and_no_more(tmp_path: Path) -> None:
    """Each fault is told once and in our own words, and the next request works."""
    async with running(tmp_path) as runtime:
        for fault, message in FAULTS.items():
            events = await run(runtime, f"abc @fault {fault}")
            last = events[-1]
            assert isinstance(last, Failed)
            assert last.failure.reason == "runtime_error"
            assert message in last.failure.message
            spent = sum(event.tokens for event in events if isinstance(event, Delta))
            assert last.usage.completion_tokens == spent
            assert text_of(await run(runtime, "still here")) == "still here"


async def test_death_in_the_middle(tmp_path: Path, eventually: Eventually) -> None:
    """A process that dies while it answers is told as such; nobody has to clean up after it."""
    runtime = await start(tmp_path)
    events = await run(runtime, "abcdef @fault die 4")
    last = events[-1]
    assert isinstance(last, Failed)
    assert last.failure.reason == "runtime_died"
    assert last.usage.completion_tokens == sum(e.tokens for e in events if isinstance(e, Delta))
    assert runtime.died.is_set()
    with pytest.raises(RoostError, match="has ended"):
        await runtime.prepare(GenerateRequest(MODEL, TextPrompt("x")))
    await eventually(lambda: _left(tmp_path) == [])


async def test_death_between_requests(tmp_path: Path, eventually: Eventually) -> None:
    """A death that no stream sees sets `died` as well."""
    runtime = await start(tmp_path)
    await kill_server(runtime)
    await eventually(lambda: runtime.died.is_set() and _left(tmp_path) == [])
    await runtime.stop(1.0)


async def test_a_slot_that_stays_taken_is_an_error(tmp_path: Path) -> None:
    """A server that hangs does not hang us: the block raises after the release timeout."""
    runtime = await start(tmp_path, release_timeout_s=0.4)
    try:
        prepared = await runtime.prepare(GenerateRequest(MODEL, TextPrompt("ab @fault hang 2")))
        with pytest.raises(RoostError, match="did not become free") as caught:
            await _leave_at_first_text(runtime, prepared)
        assert caught.value.failure.reason == "runtime_error"
        assert (await runtime.telemetry()).live == 0
        assert text_of(await run(runtime, "other slot", slot=1)) == "other slot"
    finally:
        await runtime.stop(2.0)


async def test_a_slot_has_one_answer(tmp_path: Path) -> None:
    """A second one would wait in the server for the first: it is the node's defect, and told so."""
    async with running(tmp_path) as runtime:
        prepared = await runtime.prepare(GenerateRequest(MODEL, TextPrompt("word " * 20)))
        async with runtime.open(prepared, SlotUse(0, reuse=True)) as events:
            await anext(events)
            with pytest.raises(RoostError, match="one slot"):
                await run(runtime, "next")
            assert (await runtime.telemetry()).live == 1
        assert text_of(await run(runtime, "next")) == "next"


async def _leave_at_first_text(runtime: LlamaRuntime, prepared: Prepared) -> None:
    async with runtime.open(prepared, SlotUse(0, reuse=True)) as events:
        async for event in events:
            if isinstance(event, Delta):
                break


async def test_leaving_a_request_that_waits_for_its_slot(tmp_path: Path) -> None:
    """A request that has not begun when its reader is cancelled is waited for, not forgotten."""
    async with running(tmp_path, prefill_ms=0.1, decode_ms=0.5) as runtime:
        prepared = await runtime.prepare(GenerateRequest(MODEL, TextPrompt("word " * 100)))
        reading = asyncio.Event()

        async def read() -> None:
            async with runtime.open(prepared, SlotUse(0, reuse=False)) as events:
                reading.set()
                async for _ in events:
                    pass

        async with asyncio.TaskGroup() as tasks:
            reader = tasks.create_task(read())
            await reading.wait()
            await asyncio.sleep(0)
            reader.cancel()
        assert (await runtime.telemetry()).live == 0
        assert text_of(await run(runtime, "next")) == "next"


async def test_telemetry_knows_rates_after_an_answer(tmp_path: Path) -> None:
    """Memory is told at once, rates after the first answer that was long enough."""
    async with running(tmp_path) as runtime:
        before = await runtime.telemetry()
        assert (before.live, before.decode_tokens_per_s) == (0, None)
        assert before.rss_bytes
        assert before.rss_bytes > 1_000_000
        await run(runtime, "x" * 40)
        after = await runtime.telemetry()
        assert (after.prefill_tokens_per_s, after.decode_tokens_per_s) == (41_000.0, 20_000.0)
        await run(runtime, "x")
        assert (await runtime.telemetry()).decode_tokens_per_s == 20_000.0


async def test_a_model_that_does_not_load_says_why(tmp_path: Path) -> None:
    """The server's own words are told, without paths."""
    manifest = fake_manifest(tmp_path, load_error="tensor 'x' of /some/where is corrupted")
    message = await refused(tmp_path, manifest)
    assert message == "The model cannot be loaded: tensor 'x' of … is corrupted."


async def test_a_header_that_is_not_understood_says_why(tmp_path: Path) -> None:
    """What is wrong in it counts, as with a kind of weights that only a newer server knows."""
    failed = "llama_model_loader: failed to load model from /some/where.gguf"
    why = "tensor 'a' has invalid ggml type 99. should be in [0, 43)"
    manifest = fake_manifest(tmp_path, load_error=failed, header_error=why)
    assert await refused(tmp_path, manifest) == f"The model cannot be loaded: {why}."


async def test_a_model_that_lacks_memory_says_so(tmp_path: Path) -> None:
    """A server that could not allocate, or that the system killed, may load once there is room."""
    manifest = fake_manifest(tmp_path, load_error="unable to allocate CPU_REPACK buffer")
    message = await refused(tmp_path, manifest, reason="out_of_memory")
    assert message.startswith("The machine has not enough memory left for the model: ")
    assert message.endswith("unable to allocate CPU_REPACK buffer.")
    message = await refused(tmp_path, fake_manifest(tmp_path, killed=True), reason="out_of_memory")
    assert "(status 137)" in message


async def test_a_server_that_never_gets_ready_is_given_up(tmp_path: Path) -> None:
    """A load that takes too long is ended, and nothing is left of it."""
    settings = StartSettings(str(tmp_path / "run"), str(tmp_path / "log"), start_timeout_s=0.3)
    with pytest.raises(RoostError, match=r"not loaded within 0.3 s"):
        await LlamaServer(str(FAKE)).start(
            key_of("llama_server"), fake_manifest(tmp_path, load_s=60), settings, ignore
        )
    assert _left(tmp_path) == []


async def test_a_cancelled_start_leaves_nothing(tmp_path: Path, eventually: Eventually) -> None:
    """Whoever loses interest while a model loads gets everything back."""
    before = settled_descriptors()
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(start(tmp_path, fake_manifest(tmp_path, load_s=60)))
        await eventually(lambda: (tmp_path / "run").exists() and len(_left(tmp_path)) > 3)
        starting.cancel()
    assert _left(tmp_path) == []
    await eventually(lambda: psutil.Process().num_fds() == before)


async def test_missing_and_odd_binaries(tmp_path: Path) -> None:
    """No binary, one that is none and one that is too old: each has its sentence."""
    odd, old = tmp_path / "odd", tmp_path / "old"
    odd.write_text("no program")
    odd.chmod(0o700)
    old.write_text("#!/bin/sh\necho '--model UNIX socket'\n")
    old.chmod(0o700)
    messages = [await refused(tmp_path, path=path) for path in (tmp_path / "no", odd, old)]
    assert messages[0] == "The llama-server binary cannot be started: No such file or directory."
    assert messages[1] == "The llama-server binary cannot be started: Exec format error."
    assert "too old: it does not know --api-key, --batch-size" in messages[2]


async def test_nothing_is_left_after_some_lives(tmp_path: Path, eventually: Eventually) -> None:
    """Descriptors and processes are back at the baseline after starts, chats and stops."""
    before = settled_descriptors()
    for _ in range(3):
        async with running(tmp_path) as runtime:
            chat = GenerateRequest(MODEL, ChatPrompt((Message("user", "x"),)))
            await runtime.prepare(chat)
            await run(runtime, "x")
    await eventually(lambda: psutil.Process().num_fds() == before)
    assert _left(tmp_path) == []
