"""SHELL: the backend `llama_server`: llama.cpp's own server as a child, from a wheel or a binary.

The `xllamacpp` wheel brings the server inside a Python module, which runs in a process of its own
(`child`); a `llama-server` binary is driven in the same way, over the same requests.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec

from roost.backends.base import StartSettings
from roost.backends.http1.connection import KEPT_MAX
from roost.backends.install import install_command
from roost.backends.llama import argv as llama_argv
from roost.backends.llama.argv import Launch
from roost.backends.llama.pace import SlowError
from roost.backends.llama.prefills import STEP_MIN
from roost.backends.llama.ready import Starting
from roost.backends.llama.runtime import CLAIMS, LlamaRuntime
from roost.backends.processes.child import Program
from roost.backends.processes.huge_pages import with_huge_pages
from roost.backends.processes.places import (
    Ports,
    has_unix_sockets,
    make_private,
    private_folder,
    remove_folder,
    write_key,
)
from roost.backends.processes.program_help import help_of
from roost.config.read import read_environment
from roost.core.engine import Engine
from roost.core.model import Capabilities, Manifest, RuntimeKey, RuntimeOptions, ctx_within
from roost.errors import fail

CHILD = "roost.backends.llama.child"
HELP_TIMEOUT_S = 20.0
SPINS, WAITING = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"
SPINS_MAX = "1000"
"""How often a thread looks whether the others are there, some hundred times for each token, before
it sleeps. By itself OpenMP looks 300,000 times: some milliseconds, which is for ever where somebody
else has the core that the others need. This is its own figure for more threads than cores."""

SPARE_THREADS = 4
"""For questions beside all streams and all connections that are kept."""


class Pace(NamedTuple):
    """How many prompt tokens a server takes in one step, and whether that has to be measured."""

    step: int
    measures: bool


class LlamaServer:
    """Starts runtimes; `server_path` is a `llama-server` binary to use instead of the wheel."""

    def __init__(self, server_path: str | None = None) -> None:
        self._server_path = server_path

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        return "llama_server"

    @property
    def capabilities(self) -> Capabilities:
        """What it does."""
        return CLAIMS

    async def start(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> LlamaRuntime:
        """Start a server and wait until the model is loaded; see `base.Backend.start`."""
        on_progress(0.0)
        best = 0.0

        def further(part: float) -> None:
            nonlocal best
            best = max(best, part)
            on_progress(best)

        known = settings.step_tokens
        step = min(known or key.options.batch, key.options.batch)
        measures = (
            key.options.mode == "generate"
            and not known
            and key.options.engine.step_budget_ms > 0
            and step > STEP_MIN
        )
        try:
            runtime = await self._begun(key, manifest, settings, Pace(step, measures), further)
        except SlowError as slow:
            # What is in memory already is read a second time in a fraction of the first.
            pace = Pace(slow.tokens, measures=False)
            runtime = await self._begun(key, manifest, settings, pace, further)
        on_progress(1.0)
        return runtime

    async def _begun(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        pace: Pace,
        on_progress: Callable[[float], None],
    ) -> LlamaRuntime:
        """Start a server that takes such steps; raises `SlowError` if they take too long."""
        folder = private_folder(settings.workdir)
        with Ports() as ports:
            try:
                wanted = _launch(key, manifest, folder, settings)
                if wanted.mode == "generate":
                    wanted = msgspec.structs.replace(wanted, batch=pace.step)
                launch, program = await self._plan(wanted, settings, ports)
            except BaseException:
                remove_folder(folder)
                raise
            starting = Starting(key, manifest, settings, launch, folder)
            try:
                return await starting.run(program, on_progress, measures=pace.measures)
            except BaseException:
                await starting.undo()
                raise

    async def _plan(
        self, launch: Launch, settings: StartSettings, ports: Ports
    ) -> tuple[Launch, Program]:
        """Choose the program, and TCP for one that cannot listen on a socket in a folder."""
        if not has_unix_sockets():
            launch = msgspec.structs.replace(launch, socket="", port=ports.take())
        if self._server_path is None:
            if find_spec("xllamacpp") is None:
                command = install_command("llama")
                raise fail("load_failed", f"llama.cpp is not installed. Type: {command}")
            if launch.engine.arguments:
                message = "llama_args are for a program: name one with --llama-server."
                raise fail("load_failed", message)
            wheel = (sys.executable, "-P", "-m", CHILD)
            return launch, _program(wheel, settings, msgspec.json.encode(launch))
        asked = (self._server_path, "--help")
        help_text = await help_of(asked, "The llama-server binary", HELP_TIMEOUT_S)
        if launch.socket and llama_argv.HELP_SIGN not in help_text:
            launch = msgspec.structs.replace(launch, socket="", port=ports.take())
        argv = (self._server_path, *llama_argv.arguments(launch, help_text))
        return launch, _program(argv, settings)


def _program(argv: tuple[str, ...], settings: StartSettings, stdin: bytes = b"") -> Program:
    return Program(
        argv,
        settings.log_path,
        stdin,
        _surroundings(read_environment()),
        log_max_bytes=settings.log_max_bytes,
        logs_kept=settings.logs_kept,
        memory_max_bytes=settings.memory_max_bytes,
    )


def _surroundings(environ: Mapping[str, str]) -> dict[str, str]:
    """Say what a server is told of the machine, unless an operator has said it."""
    spins = {} if {SPINS, WAITING} & environ.keys() else {SPINS: SPINS_MAX}
    return with_huge_pages(environ) | spins


def _launch(key: RuntimeKey, manifest: Manifest, folder: Path, settings: StartSettings) -> Launch:
    options, state_folder, says = key.options, settings.state_folder, key.options.mode == "generate"
    _check_mode(key, manifest)
    secret, key_path = secrets.token_hex(32), folder / "key"
    write_key(key_path, secret)
    cores = _cores(options, settings.cores)
    # 0 is the model's own context, and more than that is nothing the model has learned to use.
    ctx = ctx_within(options.ctx, manifest.ctx_train)
    if state_folder:
        make_private(Path(state_folder))
    return Launch(
        model_path=manifest.path,
        key=secret,
        key_path=str(key_path),
        ctx=ctx,
        # Of two inputs in one step llama.cpp pools one over a part of its tokens: its vector has a
        # likeness of 0.82 to the one that the same input has alone.
        slots=options.slots if says else 1,
        # An input becomes a vector, or a pair a score, in one step or not at all.
        batch=options.batch if says or not ctx else _whole_steps(ctx),
        threads=len(cores) or settings.threads_for(options),
        socket=str(folder / "llama.sock"),
        state_folder=state_folder,
        engine=options.engine,
        mode=options.mode,
        http_threads=_http_threads(options.slots),
        copies=_copies(options.engine, manifest, settings),
        cores=cores,
    )


def _cores(options: RuntimeOptions, cores: tuple[int, ...]) -> tuple[int, ...]:
    """Say where threads stay: on all cores, one each, or wherever the system puts them.

    A thread that sleeps is woken where its waker runs, if the system sees no idle core: two of a
    team share one then, each sleeps whenever the other is waited for, and the next core idles.
    """
    fills = {options.threads or len(cores), options.engine.threads_batch or len(cores)}
    return cores if fills == {len(cores)} else ()


def _http_threads(slots: int) -> int:
    """Say how many threads talk with us, all of them there from the start.

    A stream holds one, and so may the one before it on its slot, which is still being closed. Where
    a server starts more on demand, it takes a thread for idle that was given something a moment
    ago: of two requests that come together one waits until some stream has ended.
    """
    return 2 * slots + KEPT_MAX + SPARE_THREADS


def _copies(engine: Engine, manifest: Manifest, settings: StartSettings) -> bool:
    """Say whether weights are read into memory of their own: the pages of a file stay small."""
    # What a process may write to is counted, what it maps is not.
    fits = manifest.size_bytes <= settings.copy_max_bytes and not settings.memory_max_bytes
    return engine.mmap == "auto" and fits


def _check_mode(key: RuntimeKey, manifest: Manifest) -> None:
    """Refuse what llama.cpp would take, and read numbers that are not there."""
    options, scores = key.options, manifest.tasks == ("rerank",)
    if options.mode == "embed" and scores and not options.engine.pooling:
        message = "The model scores documents: for vectors it needs a `pooling`."
        raise fail("load_failed", message)
    if options.mode == "rank" and manifest.tasks and not scores:
        raise fail("load_failed", "The model has no part that scores documents.")


def _whole_steps(ctx: int) -> int:
    return -(-ctx // llama_argv.CTX_STEP) * llama_argv.CTX_STEP
