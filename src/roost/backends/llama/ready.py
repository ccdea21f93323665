"""SHELL: from a program to a runtime: wait until its model is loaded, ask for facts, or undo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from roost.backends.base import StartSettings
from roost.backends.http1.exchange import Lost, Place
from roost.backends.llama.argv import Launch
from roost.backends.llama.link import Link
from roost.backends.llama.pace import check_pace
from roost.backends.llama.runtime import Belongings, Facts, LlamaRuntime
from roost.backends.llama.states import LlamaStates, ProbePlan, probed
from roost.backends.processes.child import Child, Program
from roost.backends.processes.child import start as start_child
from roost.backends.processes.last_words import why_ended
from roost.backends.processes.loading import guessed_part
from roost.backends.processes.places import remove_folder
from roost.backends.rendering.remembered import Remembered, marks_in
from roost.backends.rendering.renderer import renderer_for
from roost.core.model import Manifest, RuntimeKey, ctx_within
from roost.errors import RoostError, fail

POLL_FIRST_S = 0.02
POLL_MAX_S = 0.25
POLL_GROWTH = 1.3


class _Settings(msgspec.Struct):
    n_ctx: int = 0


class _Props(msgspec.Struct):
    total_slots: int = 0
    build_info: str = ""
    default_generation_settings: _Settings = msgspec.field(default_factory=_Settings)


class _Meta(msgspec.Struct):
    n_vocab: int = 0


class _Model(msgspec.Struct):
    meta: _Meta | None = None


class _Models(msgspec.Struct):
    data: tuple[_Model, ...] = ()


class Starting:
    """One start, with everything that has to be undone if it fails."""

    def __init__(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        launch: Launch,
        folder: Path,
    ) -> None:
        self._key = key
        self._manifest = manifest
        self._settings = settings
        self._launch = launch
        self._folder = folder
        self._renderer = renderer_for(manifest, settings)
        self._child: Child | None = None

    async def run(
        self, program: Program, on_progress: Callable[[float], None], *, measures: bool
    ) -> LlamaRuntime:
        """Start the program and wait until its model is loaded; raises `load_failed`.

        Where it `measures`, raises `SlowError` for steps that take longer than the key allows.
        """
        child = self._child = await start_child(program)
        launch, renderer = self._launch, self._renderer
        link = Link(child, Place(launch.socket, launch.port, launch.key))
        try:
            async with asyncio.timeout(self._settings.start_timeout_s):
                if renderer:
                    # It starts while the model is loading anyway.
                    await renderer.warm()
                await self._until_ready(link, on_progress)
                facts = await self._facts(link)
                if measures:
                    budget_ms = self._key.options.engine.step_budget_ms
                    await check_pace(link, facts.vocab_size, budget_ms, launch.batch)
                states = await self._states(link, facts)
                remembered = await self._remembered(link)
        except TimeoutError:
            message = f"The model was not loaded within {self._settings.start_timeout_s:g} s."
            raise fail("load_failed", message) from None
        except Lost:
            raise fail("load_failed", "The runtime does not answer as llama.cpp does.") from None
        own = Belongings(renderer, self._folder, states, remembered)
        return LlamaRuntime(self._key, self._settings, link, facts, own)

    async def undo(self) -> None:
        """Leave no process and no file of a start that failed."""
        if self._child:
            self._child.kill()
            await self._child.reaped()
        if self._renderer:
            await self._renderer.close()
        remove_folder(self._folder)
        if self._launch.state_folder:
            remove_folder(Path(self._launch.state_folder))

    async def _until_ready(self, link: Link, on_progress: Callable[[float], None]) -> None:
        wait_s, part = POLL_FIRST_S, 0.0
        while not await link.healthy():
            if link.died.is_set():
                raise RoostError(why_ended(link.child))
            part = max(part, guessed_part(link.child, self._manifest.size_bytes))
            on_progress(part)
            await link.pause(wait_s)
            wait_s = min(wait_s * POLL_GROWTH, POLL_MAX_S)

    async def _facts(self, link: Link) -> Facts:
        """Ask the server what it really has, which may be less than it was asked for."""
        props = await link.ask("/props", _Props)
        models = await link.ask("/v1/models", _Models)
        own_ctx = props.default_generation_settings.n_ctx
        meta = models.data[0].meta if models.data else None
        vocab_size = (meta.n_vocab if meta else 0) or self._manifest.vocab_size
        if own_ctx < 1 or vocab_size < 1 or props.total_slots < self._launch.slots:
            raise fail("load_failed", "The runtime came up with less context or slots than asked.")
        ctx = ctx_within(self._launch.ctx, own_ctx)
        bos, longest = await self._bos(link), self._manifest.max_token_bytes
        marks = self._manifest.control_tokens
        return Facts(ctx, vocab_size, bos, longest, self._launch.batch, props.build_info, marks)

    async def _states(self, link: Link, facts: Facts) -> LlamaStates | None:
        """Try whether a slot comes back from a file; models nobody knows are not trusted."""
        kv = self._manifest.kv
        if not self._launch.state_folder or kv is None or self._launch.mode != "generate":
            return None
        window = max((layers.window for layers in kv.layers), default=0)
        plan = ProbePlan(facts.vocab_size, facts.ctx, window, facts.build)
        return await probed(link, self._launch.state_folder, self._launch.slots, plan)

    async def _remembered(self, link: Link) -> Remembered | None:
        """Find the tokens at which this model's conversations can be taken apart."""
        marks = marks_in(self._manifest.chat_template or "", self._manifest.control_tokens)
        ids = await link.tokenize(marks, special=True) if marks else ()
        if not ids or len(ids) != len(marks) or len(set(ids)) != len(ids):
            return None
        return Remembered(dict(zip(marks, ids, strict=True)))

    async def _bos(self, link: Link) -> tuple[int, ...]:
        if not (self._manifest.add_bos and self._manifest.bos):
            return ()
        return (await link.tokenize([self._manifest.bos], special=True))[:1]
