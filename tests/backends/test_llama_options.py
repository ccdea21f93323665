"""Options of an engine: as arguments of a program that knows them, or refused by their setting."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from roost.backends.llama.options import engine_arguments
from roost.backends.llama.server import LlamaServer
from roost.core.engine import Engine, ExtraFile
from roost.errors import RoostError
from tests.backends.subjects import FAKE, fake_manifest, key_of, settings_in

HELP = """
-m,    --model FNAME                    model path
-tb,   --threads-batch N                threads, see --threads
-ctk,  --cache-type-k TYPE              -ctv, --cache-type-v TYPE
-ngl,  --n-gpu-layers N
-fa,   --flash-attn [on|off|auto]       --mlock --no-mmap --mmap --no-kv-offload --main-gpu N
-mm,   --mmproj FILE                    --lora FNAME
--lora-scaled FNAME:SCALE,...           adapters
--numa TYPE                             -s, --seed SEED
-s,    --seed SEED
"""
ADAPTERS = (ExtraFile("a.gguf", "sha256:0"), ExtraFile("b.gguf", "sha256:1", -0.5))
ALL = Engine(
    threads_batch=3,
    ubatch=64,
    key_type="q8_0",
    value_type="q4_0",
    flash_attention="on",
    gpu_layers=0,
    main_gpu=1,
    kv_offload=False,
    mmap="off",
    mlock=True,
    projector=ExtraFile("p.gguf", "sha256:2"),
    adapters=ADAPTERS,
    arguments=("--numa", "distribute", "--seed", "-1"),
)
WORDS = (
    *("--threads-batch", "3", "--cache-type-k", "q8_0", "--cache-type-v", "q4_0"),
    *("--flash-attn", "on", "--n-gpu-layers", "0", "--main-gpu", "1", "--no-kv-offload"),
    *("--no-mmap", "--mlock", "--mmproj", "p.gguf", "--lora", "a.gguf"),
    *("--lora-scaled", "b.gguf:-0.5", "--numa", "distribute", "--seed", "-1"),
)


def refusal(engine: Engine, help_text: str = HELP) -> str:
    """Give the message with which options are refused."""
    with pytest.raises(RoostError) as caught:
        engine_arguments(engine, help_text)
    assert caught.value.failure.reason == "load_failed"
    return caught.value.failure.message


def test_what_is_asked_for_is_said_and_no_more() -> None:
    """Defaults say nothing; the rest is said in the words of this program, raw arguments last."""
    assert engine_arguments(Engine(), "") == ()
    assert engine_arguments(ALL, HELP) == WORDS
    older = HELP.replace("FNAME:SCALE,...", "FNAME SCALE")
    assert engine_arguments(Engine(adapters=ADAPTERS[1:]), older) == (
        *("--lora-scaled", "b.gguf", "-0.5"),
    )
    assert engine_arguments(Engine(mmap="on"), HELP) == ("--mmap",)


@pytest.mark.parametrize(
    ("engine", "setting", "flag"),
    [
        (Engine(threads_batch=1), "threads_batch", "--threads-batch"),
        (Engine(key_type="f32"), "cache_type_k", "--cache-type-k"),
        (Engine(value_type="f32"), "cache_type_v", "--cache-type-v"),
        (Engine(flash_attention="off"), "flash_attn", "--flash-attn"),
        (Engine(gpu_layers=5), "gpu_layers", "--gpu-layers"),
        (Engine(main_gpu=0), "main_gpu", "--main-gpu"),
        (Engine(kv_offload=False), "kv_offload", "--no-kv-offload"),
        (Engine(mmap="off"), "mmap", "--no-mmap"),
        (Engine(mlock=True), "mlock", "--mlock"),
        (Engine(projector=ADAPTERS[0]), "projector", "--mmproj"),
        (Engine(adapters=ADAPTERS[:1]), "adapters", "--lora"),
        (Engine(adapters=ADAPTERS[1:]), "adapters", "--lora-scaled"),
    ],
)
def test_what_a_program_does_not_know_is_named(engine: Engine, setting: str, flag: str) -> None:
    """Nothing is left out in silence."""
    message = f"The setting {setting} needs {flag}, which this llama-server does not know."
    assert refusal(engine, "--model") == message


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--nonsense",), "not known"),
        (("--model", "x"), "is not for llama_args"),
        (("-m", "x"), "'-m' of llama_args is not for"),
        (("--numa", "x", "-ctk", "f16"), "'-ctk' of llama_args is not for"),
        (("--host", "0.0.0.0"), "not known"),
        (("x",), "is the value of no argument"),
        (("--model=x",), "not known"),
    ],
)
def test_raw_arguments_are_looked_at(arguments: tuple[str, ...], why: str) -> None:
    """What others decide stays theirs, by whichever of its names; what is not known is refused."""
    assert why in refusal(Engine(arguments=arguments))


@pytest.mark.slow
async def test_a_program_is_told(tmp_path: Path) -> None:
    """A program gets what it knows; what it does not know fails the load before it starts."""
    key = key_of("llama_server", ctx=1024, batch=128)
    options = msgspec.structs.replace(key.options, engine=ALL)
    told = msgspec.structs.replace(
        key,
        options=msgspec.structs.replace(
            options, engine=msgspec.structs.replace(ALL, arguments=("--numa", "isolate"))
        ),
    )
    manifest, settings = fake_manifest(tmp_path), settings_in(tmp_path)
    server = LlamaServer(str(FAKE))
    runtime = await server.start(told, manifest, settings, lambda _part: None)
    await runtime.stop(2.0)
    log = (tmp_path / "runtime.log").read_text()
    line = next(line for line in log.splitlines() if line.startswith("arguments: "))
    words = json.loads(line.partition(" ")[2])
    assert words[-2:] == ["--numa", "isolate"]
    assert words[words.index("--ubatch-size") + 1] == "64"
    assert words[words.index("--gpu-layers") + 1] == "0"
    assert words[words.index("--parallel") + 1] == "2"
    assert words[words.index("--ctx-size") + 1] == str(2 * 1024)
    bad = msgspec.structs.replace(key, options=options)
    with pytest.raises(RoostError, match="'--seed' of llama_args is not known"):
        await server.start(bad, manifest, settings, lambda _part: None)
    assert not list((tmp_path / "run").rglob("*"))
