"""Records what becomes of the conformance suite: `python -m tests.record [BACKEND…]`.

Runs it on every backend that is named and can be run here, on all of them without a name, and
writes what came of it; runs of the others stay as they were. `make docs` makes the page of it.
A vLLM is a fake one unless VLLM names its program.
Real engines take their models from ROOST_HOME, in the forms that `roost convert` makes.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from roost import __version__
from roost.backends.openai.omlx import Omlx
from roost.backends.openai.vllm import Vllm
from roost.backends.registry import make
from roost.core.conformance import CaseRun, SuiteRun, read_runs
from roost.core.engine import Engine
from roost.core.ids import ModelId
from roost.core.model import RuntimeKey, RuntimeOptions
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from roost.testing.conformance import Result, Subject, examine, table
from tests.backends.subjects import (
    COUNTS,
    OPTIONS,
    kill_server,
    once,
    runner,
    scripted,
    served,
    settings_in,
    toy,
)
from tests.smollm2 import smollm2_path
from tests.source import ROOT
from tests.system.conftest import home_in
from tests.system.processes import Roost
from tests.system.test_remote import subject as remote

RUNS = ROOT / "src/roost/core/conformance.json"
FOLDER = "SmolLM2-135M-Instruct, safetensors"
FAKE = "a fake server"


def real(backend: str, model: str, options: RuntimeOptions) -> Callable[[Path], Subject]:
    """Give a real engine with a model of ROOST_HOME, patient: it may be slow."""

    def subject(folder: Path) -> Subject:
        manifest = ModelStore(Home.open(Path(os.environ["ROOST_HOME"]))).get(ModelId(model))
        key = RuntimeKey(backend, manifest.id, manifest.digest, options)
        settings = settings_in(folder, 60.0)
        return Subject(make(backend), key, manifest, settings, kill_server, 60.0, 900.0)

    return subject


def gguf(folder: Path) -> Subject:
    """Give llama.cpp's own server with the small model that packages bring."""
    manifest = ModelStore(Home.open(folder / "home")).add_file(smollm2_path(), link=True)
    # The model was not trained for vectors, so it has to be told how to make one of many.
    options = RuntimeOptions(512, 2, 64, 1, Engine(pooling="mean"))
    key = RuntimeKey("llama_server", manifest.id, manifest.digest, options)
    return Subject(
        make("llama_server"), key, manifest, settings_in(folder, 60.0), kill_server, 30.0
    )


@contextmanager
def other_roost(folder: Path, backend: str) -> Iterator[None]:
    """Run a server of somebody else's for the backend that asks one, and write down where it is."""
    if backend != "openai_http":
        yield
        return
    flags = ("serve", "--backend", "scripted", "--ctx", "32768", "--port", "0")
    with Roost(folder / "log", *flags, home=home_in(folder)) as roost:
        (folder / "url").write_text(f"{roost.url()}/v1")
        yield


def own_vllm(folder: Path, home: Path, program: str) -> Subject:
    """Give a vLLM of this program, with the small model of a ROOST_HOME."""
    weights = ModelStore(Home.open(home)).get(ModelId("smollm2-135m-instruct-safetensors")).path
    card = folder / "vllm.toml"
    lines = (
        'backend = "vllm"',
        f'path = "{Path(weights).parent}"',
        f'executable = "{program}"',
        'args = ["--max-num-seqs", "4", "--enforce-eager"]',
        "ctx = 512\nhealth_timeout_s = 900",
    )
    card.write_text("\n".join(lines))
    manifest = ModelStore(Home.open(folder / "home")).add_file(card, link=True)
    key = RuntimeKey("vllm", manifest.id, manifest.digest, RuntimeOptions(ctx=512, slots=2))
    return Subject(make("vllm"), key, manifest, settings_in(folder, 60.0), kill_server, 60.0, 900.0)


SMALL = RuntimeOptions(ctx=256, slots=2, batch=64, threads=1, device="cpu")
SUBJECTS: dict[str, tuple[str, str, Callable[[Path], Subject]]] = {
    "scripted": ("a script", "", scripted),
    "toy": ("a toy model", "", toy),
    "command": ("docs/examples/runner.py", "", runner),
    "command_once": (
        "docs/examples/once.py",
        "",
        lambda folder: once(folder, options=OPTIONS, output=COUNTS),
    ),
    "openai_http": (
        "another roost, with a script",
        "",
        lambda folder: remote(folder, (folder / "url").read_text()),
    ),
    "vllm": (FAKE, "", lambda folder: served(folder, Vllm(), "vllm")),
    "omlx": (FAKE, "", lambda folder: served(folder, Omlx("darwin"), "omlx")),
    "llama_server": ("SmolLM2-135M-Instruct Q4_1", "xllamacpp", gguf),
    "candle": (
        "SmolLM2-135M-Instruct Q4_1",
        "mistralrs",
        real("candle", "smollm2-135m-instruct", SMALL),
    ),
    "mlx": (FOLDER, "mlx-lm", real("mlx", "smollm2-135m-instruct-safetensors", SMALL)),
    "transformers": (
        FOLDER,
        "transformers",
        real("transformers", "smollm2-135m-instruct-safetensors", SMALL),
    ),
    "onnx_genai": (
        "SmolLM2-135M-Instruct, int4",
        "onnxruntime-genai",
        real(
            "onnx_genai",
            "smollm2-135m-instruct-onnx-int4",
            msgspec.structs.replace(SMALL, device=""),
        ),
    ),
}
"""For each backend what is served, the package of its engine, and how it is made."""


VLLM = os.environ.get("VLLM", "")
if VLLM:
    SUBJECTS["vllm"] = (
        FOLDER,
        "",
        lambda folder: own_vllm(folder, Path(os.environ["ROOST_HOME"]), VLLM),
    )


def recorded() -> dict[str, SuiteRun]:
    """Give what was recorded so far."""
    return read_runs(RUNS.read_bytes()) if RUNS.exists() else {}


def cases_of(results: list[Result]) -> tuple[CaseRun, ...]:
    """Write results as they are recorded."""
    return tuple(
        CaseRun(one.case.name, one.case.promise, one.status, one.case.needs) for one in results
    )


def machine() -> str:
    """Say what kind of machine this is."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, no accelerator"


def version_of(program: str) -> str:
    """Ask a program for its version, which is its last word."""
    told = subprocess.run([program, "--version"], capture_output=True, check=True)
    return told.stdout.decode().split()[-1]


async def run(name: str) -> SuiteRun | None:
    """Run the suite on a backend; None where its engine is not installed."""
    subject, package, made = SUBJECTS[name]
    try:
        engine = f", {package} {version(package)}" if package else ""
    except PackageNotFoundError:
        return None
    with tempfile.TemporaryDirectory() as folder, other_roost(Path(folder), name):
        results = await examine(made(Path(folder)))
    sys.stdout.write(f"{name}\n{table(results)}\n")
    today = dt.datetime.now(dt.UTC).date().isoformat()
    if name == "vllm" and VLLM:
        engine = f", vllm {version_of(VLLM)}"
    versions = f"roost {__version__}{engine}"
    return SuiteRun(today, subject, versions, machine(), cases_of(results), fake=subject == FAKE)


def main(names: list[str]) -> None:
    """Run what can be run, and keep the rest."""
    for name in names or list(SUBJECTS):
        found = asyncio.run(run(name))
        if found is not None:
            runs = dict(sorted({**recorded(), name: found}.items()))
            RUNS.write_bytes(msgspec.json.format(msgspec.json.encode(runs), indent=1) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
