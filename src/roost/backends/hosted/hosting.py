"""SHELL: from a program that speaks the words of `frames` to a runtime, or to nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import NamedTuple

from roost.backends.base import StartSettings
from roost.backends.hosted.frames import Load, Loaded, Spelling
from roost.backends.hosted.link import HostLink
from roost.backends.hosted.runtime import HostedRuntime, Owned
from roost.backends.processes.child import Program
from roost.backends.processes.child import start as start_child
from roost.backends.processes.loading import guessed_part
from roost.backends.rendering.renderer import Renderer, renderer_for
from roost.core.engine import lack
from roost.core.model import Capabilities, Manifest, RuntimeKey, ctx_within
from roost.errors import fail

POLL_S = 0.25


class Guest(NamedTuple):
    """What is hosted: its command for the descriptor of its socket, and how it writes words.

    `path` is what it is told to load, `environ` is added to what every child gets.
    """

    argv: Callable[[int], tuple[str, ...]]
    spelling: Spelling
    path: str
    capabilities: Capabilities
    environ: Mapping[str, str] = {}


async def begin(
    guest: Guest,
    key: RuntimeKey,
    manifest: Manifest,
    settings: StartSettings,
    on_progress: Callable[[float], None],
) -> HostedRuntime:
    """Start a child and wait until its model is loaded; see `base.Backend.start`."""
    mode, claims = key.options.mode, guest.capabilities
    if mode == "rank" or (mode == "embed" and not claims.embeddings):
        message = f"The backend {key.backend} {lack('generate', mode)}."
        raise fail("load_failed", message)
    on_progress(0.0)
    renderer = renderer_for(manifest, settings)
    link = await _begun(guest, settings, renderer, on_progress)
    try:
        async with asyncio.timeout(settings.start_timeout_s):
            link.send(_load(key, manifest, settings, guest.path))
            if renderer:
                # It starts while the model is loading anyway.
                await renderer.warm()
            loaded = await _until_loaded(link, manifest)
        _check_loaded(loaded)
    except BaseException as error:
        link.condemn("it was not wanted any more")
        await link.child.reaped()
        if renderer:
            await renderer.close()
        if isinstance(error, TimeoutError):
            message = f"The model was not loaded within {settings.start_timeout_s:g} s."
            raise fail("load_failed", message) from None
        raise
    on_progress(1.0)
    return HostedRuntime(key, settings, link, loaded, Owned(guest.capabilities, renderer))


async def _begun(
    guest: Guest,
    settings: StartSettings,
    renderer: Renderer | None,
    on_progress: Callable[[float], None],
) -> HostLink:
    ours, theirs = socket.socketpair()
    with theirs:
        program = Program(
            guest.argv(theirs.fileno()),
            settings.log_path,
            env=guest.environ,
            inherited=theirs.fileno(),
            memory_max_bytes=settings.memory_max_bytes,
            log_max_bytes=settings.log_max_bytes,
            logs_kept=settings.logs_kept,
        )
        try:
            child = await start_child(program)
        except BaseException:
            ours.close()
            raise
    link = HostLink(child, on_progress, renderer.abandon if renderer else None, guest.spelling)
    try:
        await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=ours)
    except BaseException:
        # Nobody knows of the child yet.
        ours.close()
        child.kill()
        await child.reaped()
        raise
    # Only now: who says something and ends at once is heard, and it has to be here for that.
    child.on_death(link.on_death)
    return link


async def _until_loaded(link: HostLink, manifest: Manifest) -> Loaded:
    """Wait; meanwhile what is in memory tells how far a library is that says nothing itself."""
    while not link.loaded.done():
        await asyncio.wait((link.loaded,), timeout=POLL_S)
        if manifest.weight_bytes:
            link.progress(guessed_part(link.child, manifest.weight_bytes))
    return link.loaded.result()


def _load(key: RuntimeKey, manifest: Manifest, settings: StartSettings, path: str) -> Load:
    options = key.options
    # 0 is the model's own context, and more than that is nothing the model has learned to use.
    ctx = ctx_within(options.ctx, manifest.ctx_train)
    return Load(
        *(path, ctx, options.slots, options.batch, settings.threads_for(options)),
        device=options.device,
        dtype=options.dtype,
        mode=options.mode,
    )


def _check_loaded(loaded: Loaded) -> None:
    """Believe a child only what can be; raises `load_failed`."""
    if loaded.ctx < 2 or loaded.vocab_size < 1:
        raise fail("load_failed", "The library came up without a context or a vocabulary.")
    if not all(0 <= token < loaded.vocab_size for token in (*loaded.bos, *loaded.eos)):
        raise fail("load_failed", "The library begins prompts with what is none of its tokens.")
