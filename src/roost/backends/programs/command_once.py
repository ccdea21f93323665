"""SHELL: the backend `command_once`: somebody's program that answers one request and ends.

Nothing is kept between requests: each one starts a process, which loads the model for itself, and
as many run at once as the model has slots. What its card can say of it is in docs/runners.md.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from roost.backends.answering import Answering
from roost.backends.base import Prepared, SlotUse, StartSettings, Telemetry
from roost.backends.card_file import read_installed
from roost.backends.processes.places import private_folder, remove_folder
from roost.backends.programs.once_stream import Asked, Stream
from roost.backends.programs.once_words import Recipe, check_plain, check_prompt, check_told, joined
from roost.backends.rendering.prompts import rendered_by
from roost.backends.rendering.renderer import Renderer, renderer_for
from roost.core.card import Once
from roost.core.events import StreamEvent
from roost.core.ids import TenantId
from roost.core.model import Capabilities, Manifest, RuntimeKey, ctx_within
from roost.core.reading import Reading
from roost.core.request import ChatPrompt, GenerateRequest, TextPrompt
from roost.errors import fail

CAPABILITIES = Capabilities(
    chat=True, completion=True, streaming=True, concurrent_streams=True, cancel=True
)
"""What a process for each request can do; it tells no tokens, and keeps nothing."""


class CommandOnce:
    """Runs programs, as the cards of their models say."""

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        return "command_once"

    @property
    def capabilities(self) -> Capabilities:
        """What every such program does."""
        return CAPABILITIES

    async def start(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> OnceRuntime:
        """Look whether there is such a program; see `base.Backend.start`. Nothing is run yet."""
        on_progress(0.0)
        recipe = await asyncio.to_thread(_recipe, key, manifest, settings.threads_for(key.options))
        renderer = renderer_for(manifest, settings)
        folder = await asyncio.to_thread(private_folder, settings.workdir)
        try:
            if renderer:
                await renderer.warm()
        except BaseException:
            remove_folder(folder)
            raise
        on_progress(1.0)
        return OnceRuntime(key, recipe, settings, folder, renderer)


class OnceRuntime:
    """A model that has no process until somebody asks it; made by `CommandOnce.start`."""

    def __init__(
        self,
        key: RuntimeKey,
        recipe: Recipe,
        settings: StartSettings,
        folder: Path,
        renderer: Renderer | None,
    ) -> None:
        self._answering = Answering[Stream](key.options.slots, recipe.ctx, CAPABILITIES)
        self._key = key
        self._recipe = recipe
        self._settings = settings
        self._folder = folder
        self._renderer = renderer

    @property
    def key(self) -> RuntimeKey:
        """The key it was started for."""
        return self._key

    @property
    def died(self) -> asyncio.Event:
        """Set once it was told to end."""
        return self._answering.died

    @property
    def states(self) -> None:
        """Nothing is kept between requests."""
        return None

    async def prepare(self, request: GenerateRequest, owner: TenantId | None = None) -> Prepared:
        """Check and render; the program counts, if anybody does, so there are no tokens here.

        See `base.Runtime.prepare`; `unsupported` as well for what the program has no words for.
        """
        self._answering.check(request)
        check_told(self._recipe, request)
        text, reading = await self._text(request)
        check_prompt(self._recipe, text)
        return self._answering.prepared(request, reading)

    @asynccontextmanager
    async def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Run the program; see `base.Runtime.open`. A slot in use is the caller's defect."""
        self._answering.check_place(prepared, use)
        check_told(self._recipe, prepared.request)
        text, _ = await self._text(prepared.request)
        check_prompt(self._recipe, text)
        stream = Stream(self._recipe, Asked(prepared, text, use.slot), self._folder, self._settings)
        async with self._answering.run(use.slot, stream) as events:
            yield events

    async def telemetry(self) -> Telemetry:
        """Processes that run, and their memory; how quick they are nobody tells."""
        streams = self._answering.streams
        return Telemetry(live=len(streams), rss_bytes=sum(one.rss_bytes for one in streams))

    async def stop(self, grace_s: float) -> None:
        """End every process; idempotent. There is nothing that could be saved by a grace."""
        self._answering.end()
        if self._renderer:
            await self._renderer.close()
        await asyncio.to_thread(remove_folder, self._folder)

    async def _text(self, request: GenerateRequest) -> tuple[str, Reading | None]:
        """Give the prompt as one text, and how the answer is to be read."""
        prompt, control_tokens = request.prompt, self._recipe.control_tokens
        if isinstance(prompt, TextPrompt):
            check_plain(prompt.text, control_tokens)
            return prompt.text, None
        if not isinstance(prompt, ChatPrompt):
            raise fail("unsupported", "Token ids mean nothing to a program that is given text.")
        rendered = await rendered_by(self._renderer, prompt)
        return joined(rendered.pieces, control_tokens), rendered.reading


def _recipe(key: RuntimeKey, manifest: Manifest, threads: int) -> Recipe:
    """Read the card again, which may have changed since; raises `load_failed`."""
    card = read_installed(manifest.path, Once, "command_once")
    if shutil.which(card.argv[0]) is None:
        raise fail("load_failed", "The card's argv names no program that may be run here.")
    ctx = ctx_within(key.options.ctx, card.ctx)
    return Recipe(
        *(card.argv, card.path, ctx, card.options, card.output),
        *(card.time_limit_s, card.output_max_bytes),
        control_tokens=manifest.control_tokens,
        threads=threads,
    )
