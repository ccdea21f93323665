"""SHELL: one token from every installed model, each in a runtime that is started for that."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from roost.backends.base import Embedder, Ranker, SlotUse, StartSettings
from roost.cli.doctoring.facts import ProbeFacts
from roost.core.events import Failed
from roost.core.model import RuntimeKey, RuntimeOptions
from roost.core.request import GenerateRequest, Sampling, TextPrompt
from roost.errors import RoostError
from roost.node.models.shelf import mode_of

if TYPE_CHECKING:
    from roost.backends.base import Backend, Runtime
    from roost.cli.doctoring.facts import ModelFacts
    from roost.core.model import Manifest

PROBE = RuntimeOptions(ctx=256, slots=1, batch=64)
TOKEN_TIMEOUT_S = 60.0
STOP_GRACE_S = 5.0
PROMPT = "The sky is"


def probe_all(
    models: Sequence[tuple[Manifest, ModelFacts]],
    make: Callable[[str], Backend],
    start_timeout_s: float,
) -> tuple[ProbeFacts, ...]:
    """Try every model that has a backend, one after the other; nothing of it stays behind."""
    return tuple(
        asyncio.run(_probe(manifest, make(facts.choice.backend), start_timeout_s))
        for manifest, facts in models
        if facts.choice.backend and not facts.failure
    )


async def _probe(manifest: Manifest, backend: Backend, start_timeout_s: float) -> ProbeFacts:
    options = msgspec.structs.replace(PROBE, mode=mode_of(manifest, "auto"))
    key = RuntimeKey(backend.name, manifest.id, manifest.digest, options)
    began_s = time.monotonic()
    model = str(manifest.id)
    with tempfile.TemporaryDirectory(prefix="roost-doctor-") as folder:
        settings = StartSettings(f"{folder}/run", f"{folder}/log", start_timeout_s)
        try:
            runtime = await backend.start(key, manifest, settings, lambda _part: None)
        except RoostError as error:
            return ProbeFacts(model, backend.name, failure=error.failure.message)
        loaded_s = time.monotonic()
        try:
            async with asyncio.timeout(TOKEN_TIMEOUT_S):
                failure = await _one_token(runtime, manifest)
        except RoostError as error:
            failure = error.failure.message
        except TimeoutError:
            failure = f"nothing came within {TOKEN_TIMEOUT_S:g} s"
        took_s = time.monotonic() - loaded_s
        await runtime.stop(STOP_GRACE_S)
    return ProbeFacts(model, backend.name, loaded_s - began_s, took_s, failure)


async def _one_token(runtime: Runtime, manifest: Manifest) -> str:
    """Say why there was no token, or whatever such a model makes, "" if there was one."""
    if isinstance(runtime, Embedder) and runtime.key.options.mode == "embed":
        await runtime.embed(await runtime.tokenize([PROMPT]))
        return ""
    if isinstance(runtime, Ranker) and runtime.key.options.mode == "rank":
        await runtime.rank(PROMPT, [PROMPT])
        return ""
    request = GenerateRequest(
        manifest.id, TextPrompt(PROMPT), max_tokens=1, sampling=Sampling(temperature=0.0)
    )
    prepared = await runtime.prepare(request)
    async with runtime.open(prepared, SlotUse(0, reuse=False)) as events:
        async for event in events:
            if isinstance(event, Failed):
                return event.failure.message
    return ""
