"""What the conformance suite examines in these tests, made by hand where nothing is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil

from roost.backends.base import Backend, Runtime, StartSettings
from roost.backends.hosted.host import Hosted
from roost.backends.hosted.runtime import HostedRuntime
from roost.backends.libraries.toy import LIBRARY
from roost.backends.llama.runtime import LlamaRuntime
from roost.backends.llama.server import LlamaServer
from roost.backends.openai.served import ServedRuntime
from roost.backends.programs.command import Command
from roost.backends.programs.command_once import CommandOnce
from roost.backends.scripted.backend import ScriptedBackend, ScriptedRuntime
from roost.backends.scripted.script import Script
from roost.core.ids import ModelId
from roost.core.kv import KvLayers, KvShape
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.testing.conformance import Subject

MODEL = ModelId("model")


def key_of(backend: str, *, ctx: int = 2048, slots: int = 2, batch: int = 256) -> RuntimeKey:
    """Give a key for the test model."""
    return RuntimeKey(backend, MODEL, "sha256:0", RuntimeOptions(ctx, slots, batch))


def settings_in(folder: Path, release_timeout_s: float = 10.0) -> StartSettings:
    """Give settings whose files stay in `folder`."""
    return StartSettings(
        str(folder / "run"),
        str(folder / "runtime.log"),
        release_timeout_s=release_timeout_s,
        state_folder=str(folder / "states"),
    )


async def kill_scripted(runtime: Runtime) -> None:
    """End a scripted runtime as kill -9 would."""
    assert isinstance(runtime, ScriptedRuntime)
    runtime.kill()


def scripted(folder: Path, script: Script | None = None) -> Subject:
    """Give the scripted backend, slow enough to be left in prefill and in decode."""
    script = script or Script(delay_ms=1.0, prefill_ms_per_token=0.05)
    manifest = Manifest(MODEL, "", 0, "sha256:0", format="scripted")
    backend = ScriptedBackend(script)
    return Subject(backend, key_of("scripted"), manifest, settings_in(folder), kill_scripted)


async def kill_server(runtime: Runtime) -> None:
    """Kill the program of a runtime, not its shim, with -9."""
    assert isinstance(runtime, (LlamaRuntime, HostedRuntime, ServedRuntime))
    for program in psutil.Process(runtime.pid).children():
        program.kill()


FAKE = Path(__file__).with_name("fake_llama_server.py")
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)


def fake_manifest(folder: Path, **model: object) -> Manifest:
    """Write a model for the fake server and give its manifest."""
    path = folder / "model.json"
    path.write_text(json.dumps(model))
    return Manifest(
        MODEL,
        str(path),
        path.stat().st_size,
        "sha256:0",
        ctx_train=1024,
        vocab_size=259,
        chat_template=CHATML,
        bos="<s>",
        eos="<|im_end|>",
        add_bos=True,
        control_tokens=("<s>", "<|im_start|>", "<|im_end|>"),
        max_token_bytes=12,
        kv=KvShape((KvLayers(2, 8, 8),)),
    )


def fake_server(folder: Path, **model: object) -> Subject:
    """Give the adapter of llama.cpp, driving a binary that is a fake."""
    return Subject(
        LlamaServer(str(FAKE)),
        key_of("llama_server", ctx=1024),
        fake_manifest(folder, **model),
        settings_in(folder),
        kill_server,
    )


def toy(folder: Path, **model: object) -> Subject:
    """Give the adapter of hosted libraries, with one that needs no installation."""
    return Subject(
        Hosted(LIBRARY),
        key_of("toy", ctx=1024),
        fake_manifest(folder, **model),
        settings_in(folder),
        kill_server,
    )


EXAMPLES = Path(__file__).parents[2] / "docs/examples"
ONCE = EXAMPLES / "once.py"
OPTIONS = {
    "temperature": ["--temperature", "{value}"],
    "seed": ["--seed", "{value}"],
    "ignore_eos": ["--ignore-eos"],
}
COUNTS = {"prompt_tokens": "Prompt: {count} tokens", "completion_tokens": "Answer: {count} tokens"}


def once(folder: Path, *argv: str, **card: object) -> Subject:
    """Give the backend of programs that answer once, with the documented example or another."""
    path = folder / "once.toml"
    told = {
        "backend": "command_once",
        "argv": argv
        or (sys.executable, "-S", str(ONCE), "--seconds", "0.001", "--max-tokens", "{max_tokens}"),
        "ctx": 1024,
    }
    path.write_text("\n".join(f"{name} = {toml(value)}" for name, value in (told | card).items()))
    found = msgspec.structs.replace(
        fake_manifest(folder), path=str(path), format="command_once", add_bos=False
    )
    key = key_of("command_once", ctx=1024)
    return Subject(CommandOnce(), key, found, settings_in(folder))


def rewrite(subject: Subject, text: str) -> None:
    """Put another text into the subject's card."""
    Path(subject.manifest.path).write_text(text)


def compiled(name: str, folder: Path) -> str | None:
    """Build an example in C and give its program; None where there is no compiler."""
    compiler, program = shutil.which("cc"), folder / name
    if compiler is None:
        return None
    flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program))
    subprocess.run([compiler, *flags, str(EXAMPLES / f"{name}.c")], check=True, timeout=50)
    return str(program)


def toml(value: object) -> str:
    """Write a value of a card."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {toml(one)}" for name, one in value.items()) + "}"
    return json.dumps(value)


FAKE_VLLM = Path(__file__).with_name("fake_vllm.py")


def program(folder: Path, name: str) -> str:
    """Write a program of this name that is the fake server of the OpenAI dialect."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {FAKE_VLLM} "$@"\n')
    path.chmod(0o755)
    return str(path)


def served(folder: Path, backend: Backend, executable: str, **card: object) -> Subject:
    """Give a backend whose server is the fake one, under the name of `executable`."""
    weights, path = folder / "weights", folder / "served.toml"
    weights.mkdir(exist_ok=True)
    told = {
        "backend": backend.name,
        "path": str(weights),
        "executable": program(folder, executable),
        "ctx": 1024,
        "health_timeout_s": 20.0,
    }
    path.write_text("\n".join(f"{name} = {toml(value)}" for name, value in (told | card).items()))
    manifest = Manifest(MODEL, str(path), 0, "sha256:0", format=backend.name, chat_template="")
    key = key_of(backend.name, ctx=1024)
    return Subject(backend, key, manifest, settings_in(folder), kill_server)


RUNNER = EXAMPLES / "runner.py"


def runner(folder: Path, *argv: str, **card: object) -> Subject:
    """Give the backend of foreign runners, with the documented example or another program."""
    path = folder / "card.toml"
    told = {
        "backend": "command",
        "argv": argv or (sys.executable, str(RUNNER), "0.002"),
        "ctx": 1024,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in (told | card).items()]
    path.write_text("\n".join(lines))
    manifest = msgspec.structs.replace(fake_manifest(folder), path=str(path), format="command")
    return Subject(
        Command(), key_of("command", ctx=1024), manifest, settings_in(folder), kill_server
    )
