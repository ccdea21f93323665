"""SHELL: the models of a node and how each is started: manifests in, runtimes out."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from roost.backends.base import Backend, Runtime, StartSettings
from roost.core.engine import Engine, ExtraFile, Mode
from roost.core.footprint import HOST, footprint_of
from roost.core.ids import RuntimeId
from roost.core.kv import KvPlan
from roost.core.model import RuntimeKey, RuntimeOptions
from roost.core.snapshots import ModelOffer
from roost.errors import RoostError, fail
from roost.store.calibration import Weighed, expected_bytes
from roost.store.models.inspection import check_unchanged, digest, write_vocabulary
from roost.store.runtime_logs import file_name, log_name

if TYPE_CHECKING:
    from roost.core.ids import ModelId
    from roost.core.model import Manifest
    from roost.node.models.choosing import Choosing
    from roost.store.calibration import Calibration
    from roost.store.paces import Paces

Tell: TypeAlias = Callable[[list[ModelOffer]], Awaitable[None]]
"""Tells the node that it offers something else."""

WITH_ENGINE = ("llama_server",)
"""Backends that an engine's options are for."""
COUNTING = frozenset({"llama_server"})
"""Backends that can read a model's vocabulary without its weights."""


class ShelfSettings(msgspec.Struct, frozen=True):
    """How runtimes are started.

    `options.ctx` 0 means the model's own context, which is also the most there is. `own_options`
    are those of single models, by name, where they differ.
    `folder` is a private directory under which every runtime gets one of its own. `log_folder` is
    this node's alone and holds one log per model, and one of what counts its prompts; the backend
    bounds their sizes. `state_folder` is as private as `folder` and gets what slots hold, where
    that is put aside; "" where it is not.
    `vector_sizes` are believed before what a model says of itself, by model, "" for all.
    """

    options: RuntimeOptions
    folder: str
    log_folder: str
    start: StartSettings
    state_folder: str = ""
    own_options: dict[str, RuntimeOptions] = {}
    vector_sizes: Mapping[str, tuple[int, ...]] = {}


class Shelf:
    """What is installed here; starts what the agent asks for."""

    def __init__(
        self,
        models: Iterable[Manifest],
        choosing: Choosing,
        settings: ShelfSettings,
    ) -> None:
        self._models = {model.id: model for model in models}
        self._choosing = choosing
        self._settings = settings
        self._tell: Tell | None = None
        self._calibration: Calibration | None = None
        self._known: tuple[Weighed, ...] = ()
        self._memories: Mapping[str, str] = {}
        self._paces: Paces | None = None
        self._spare: Callable[[], int] = lambda: 0
        self._steps: dict[str, int] = {}
        self._counters = 0

    def tell_with(self, tell: Tell) -> None:
        """Have this hear what is offered when another backend has taken over a model."""
        self._tell = tell

    def weigh_with(self, calibration: Calibration, memories: Mapping[str, str]) -> None:
        """Believe what runtimes were seen to take; `memories` names the one of each backend.

        Raises `storage_error`.
        """
        self._calibration, self._memories = calibration, memories
        self._known = calibration.all()

    def pace_with(self, paces: Paces) -> None:
        """Remember there how large steps of runtimes may be."""
        self._paces = paces

    def copy_with(self, spare: Callable[[], int]) -> None:
        """Let weights of so many bytes, as it is at a start, be copied instead of mapped."""
        self._spare = spare

    async def note(self, key: RuntimeKey, measured_bytes: int) -> None:
        """A runtime of this key was seen to take so much; raises `storage_error`."""
        manifest = self._models.get(key.model)
        if manifest is None or manifest.digest != key.digest or self._calibration is None:
            return
        calculated = footprint_of(manifest, plan_of(key.options)).total_bytes
        weighed = Weighed(
            *(key.backend, key.digest, key.options, calculated, measured_bytes, int(time.time()))
        )
        others = (one for one in self._known if not one.is_of(key))
        self._known = (*others, weighed)
        await asyncio.to_thread(self._calibration.note, weighed)

    def update(self, models: Iterable[Manifest]) -> list[ModelOffer]:
        """Have these models from now on; runtimes that run are not touched. Returns the offers."""
        self._models = {model.id: model for model in models}
        return self.offers()

    def pace(self, step_budget_ms: int, apart: Container[str]) -> list[ModelOffer]:
        """Have steps of prefill take about so long from now on; returns the offers.

        `apart` are models for which another time was said.
        """
        now, own = self._settings, self._settings.own_options
        options = _with_budget(now.options, step_budget_ms)
        own = {m: o if m in apart else _with_budget(o, step_budget_ms) for m, o in own.items()}
        self._settings = msgspec.structs.replace(now, options=options, own_options=own)
        return self.offers()

    def offers(self) -> list[ModelOffer]:
        """What this node could serve."""
        return [self._offer(model) for model in self._models.values()]

    async def check(self, model: ModelId) -> None:
        """Look at a model's files; raises `load_failed` where they are not what was installed."""
        manifest = self._models.get(model)
        if manifest is not None and manifest.files:
            await asyncio.to_thread(check_unchanged, manifest)
        if manifest is not None:
            for file in self._options(manifest).engine.files:
                await asyncio.to_thread(_check_extra, file)

    async def start(
        self, model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Start a runtime; raises what the backend raises, the last one where several are tried."""
        manifest = self._models.get(model)
        if manifest is None:
            raise fail("load_failed", "The model was removed before it could be loaded.")
        while True:
            backend = self._choosing.backend_of(self._subject(manifest))
            self._check_engine(manifest, backend.name)
            await self.check(model)
            key, settings = self._plan(manifest, runtime, backend.name)
            spare = await asyncio.to_thread(self._spare)
            settings = msgspec.structs.replace(settings, copy_max_bytes=spare)
            try:
                return await self._paced(backend, key, manifest, settings, on_progress)
            except RoostError as error:
                subject = self._subject(manifest)
                if not self._choosing.on_failed(subject, backend.name, error.failure):
                    raise
            if self._tell is not None:
                # What is said of weights and backend has to be true before anybody is served.
                await self._tell(self.offers())

    async def start_counter(self, model: ModelId) -> Runtime:
        """Start what counts prompts of a model by its vocabulary alone.

        Raises as `start` does, `load_failed` too for one whose backend cannot do that.
        """
        manifest = self._models.get(model)
        backend = None if manifest is None else self._choosing.backend_of(self._subject(manifest))
        if manifest is None or backend is None or backend.name not in COUNTING:
            raise fail("load_failed", "Its vocabulary alone is no model here.")
        await self.check(model)
        self._counters += 1
        # No number at the end, as a runtime's id has one.
        name = RuntimeId(f"{self._counters}-vocabulary")
        key, settings = self._plan(manifest, name, backend.name)
        engine = Engine(step_budget_ms=0)
        options = msgspec.structs.replace(key.options, slots=1, engine=engine)
        key = msgspec.structs.replace(key, digest=f"vocabulary of {key.digest}", options=options)
        # The model's own runtime may be writing its log, and what it says is not this one's.
        log_path = f"{self._settings.log_folder}/{log_name(model, counts=True)}"
        settings = msgspec.structs.replace(settings, state_folder="", log_path=log_path)
        path = Path(f"{settings.workdir}.gguf")
        try:
            await asyncio.to_thread(write_vocabulary, Path(manifest.path), path)
            small = msgspec.structs.replace(manifest, path=str(path))
            return await backend.start(key, small, settings, _nobody_waits)
        finally:
            # Whoever has read it does not need it any more.
            await asyncio.to_thread(path.unlink, missing_ok=True)

    async def _paced(
        self,
        backend: Backend,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> Runtime:
        """Start it with steps of the size that was right before; otherwise remember what is."""
        paces = self._paces
        if paces is None or not key.options.engine.step_budget_ms:
            return await backend.start(key, manifest, settings, on_progress)
        known = await asyncio.to_thread(paces.step_of, key.name)
        self._steps[key.name] = known
        settings = msgspec.structs.replace(settings, step_tokens=known)
        runtime = await backend.start(key, manifest, settings, on_progress)
        with contextlib.suppress(RoostError):
            # What cannot be remembered is measured again.
            step = (await runtime.telemetry()).step_tokens
            if step and step != known:
                await asyncio.to_thread(paces.note, key.name, step)
                self._steps[key.name] = step
        return runtime

    async def learn(self, runtimes: Iterable[Runtime]) -> None:
        """Remember what steps would be right by what these have seen; the next ones take them.

        Nobody is loaded again for it: that costs more than steps that are too small for a while.
        """
        for runtime in runtimes:
            name = runtime.key.name
            if self._paces is None or not runtime.key.options.engine.step_budget_ms:
                continue
            with contextlib.suppress(RoostError):
                fits = (await runtime.telemetry()).fitting_tokens
                if fits and fits != self._steps.get(name):
                    await asyncio.to_thread(self._paces.note, name, fits)
                    self._steps[name] = fits

    def _check_engine(self, manifest: Manifest, backend: str) -> None:
        """Refuse what was said of this very model and takes no effect."""
        own = self._settings.own_options.get(manifest.id)
        common = self._settings.options.engine
        if own is not None and own.engine != common and backend not in WITH_ENGINE:
            names = ", ".join(_changed(own.engine, common))
            message = f"Options of llama.cpp are set for this model, which {backend} runs: {names}."
            raise fail("load_failed", message)

    def _plan(
        self, manifest: Manifest, runtime: RuntimeId, backend: str
    ) -> tuple[RuntimeKey, StartSettings]:
        """Say what is to be started, and where its files go."""
        kept = self._settings.state_folder
        settings = msgspec.structs.replace(
            self._settings.start,
            state_folder=f"{kept}/{file_name(runtime)}" if kept else "",
            workdir=f"{self._settings.folder}/{file_name(runtime)}",
            log_path=f"{self._settings.log_folder}/{log_name(manifest.id)}",
        )
        return self._key(manifest, backend), settings

    def _key(self, manifest: Manifest, backend: str) -> RuntimeKey:
        options = msgspec.structs.replace(self._options(manifest), ctx=self._ctx(manifest))
        if backend not in WITH_ENGINE:
            # What takes no effect makes no difference, and no other key.
            options = msgspec.structs.replace(options, engine=Engine())
        reading = reading_of(manifest)
        return RuntimeKey(backend, manifest.id, manifest.digest, options, reading)

    def _offer(self, model: Manifest) -> ModelOffer:
        backend = self._backend_name(model)
        key = self._key(model, backend)
        found = footprint_of(model, plan_of(key.options))
        says, embeds = key.options.mode == "generate", key.options.mode == "embed"
        return ModelOffer(
            model=model.id,
            slots=self._options(model).slots,
            ctx=self._ctx(model),
            created_unix_s=model.created_unix_s,
            size_bytes=model.size_bytes,
            has_chat=says and model.chat_template is not None,
            # Of one for vectors each input has to fit the context, and not all of them together.
            max_token_bytes=model.max_token_bytes if says else 0,
            backend=backend,
            kv_bytes=found.kv_bytes,
            kv_token_bytes=found.kv_token_bytes,
            digest=digest_of(model, backend),
            key=key.name,
            workspace_bytes=found.workspace_bytes,
            measured_bytes=expected_bytes(self._known, key, found.total_bytes),
            device=self._memories.get(backend, HOST),
            architecture=model.architecture,
            mode=key.options.mode,
            vector_sizes=self._vector_sizes(model) if embeds else (),
        )

    def _backend_name(self, model: Manifest) -> str:
        """Name the backend; a model that none serves is offered, and says why when it is asked."""
        try:
            return self._choosing.backend_of(self._subject(model)).name
        except RoostError:
            return ""

    def _options(self, model: Manifest) -> RuntimeOptions:
        options = self._settings.own_options.get(model.id, self._settings.options)
        return msgspec.structs.replace(options, mode=mode_of(model, options.mode))

    def _vector_sizes(self, model: Manifest) -> tuple[int, ...]:
        said = self._settings.vector_sizes
        return said.get(model.id) or said.get("") or model.vector_sizes

    def _subject(self, model: Manifest) -> Manifest:
        """Say of a model what it is for here, which may be another thing than it was made for."""
        if mode_of(model, "auto") == self._options(model).mode:
            return model
        tasks = ("embeddings",) if self._options(model).mode == "embed" else ("completion",)
        return msgspec.structs.replace(model, tasks=tasks)

    def _ctx(self, model: Manifest) -> int:
        wanted, own = self._options(model).ctx, model.ctx_train
        if model.remote:
            return own
        return min(wanted or own, own) if own else wanted


def _with_budget(options: RuntimeOptions, step_budget_ms: int) -> RuntimeOptions:
    engine = msgspec.structs.replace(options.engine, step_budget_ms=step_budget_ms)
    return msgspec.structs.replace(options, engine=engine)


def _nobody_waits(_progress: float) -> None:
    """How far such a load is: it takes a moment."""


def mode_of(model: Manifest, wanted: Mode) -> Mode:
    """Say what a runtime of a model is for: what was asked for, or else what the model is for."""
    if wanted != "auto":
        return wanted
    if not model.tasks or "chat" in model.tasks or "completion" in model.tasks:
        return "generate"
    return "embed" if "embeddings" in model.tasks else "rank"


def plan_of(options: RuntimeOptions) -> KvPlan:
    """Say what a runtime with these options keeps."""
    engine = options.engine
    types = engine.key_type, engine.value_type
    return KvPlan(options.ctx, options.slots, options.batch, *types)


def _changed(one: Engine, other: Engine) -> list[str]:
    return [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]


def digest_of(model: Manifest, backend: str) -> str:
    """Name what a token's id means, and what comes after it: 32 digits, "" where it is not known.

    Equal for equal weights under an equal template and tokeniser on the same backend.
    """
    if not model.digest or not backend:
        return ""
    facts = (
        *(model.digest, backend, model.chat_template, model.bos, model.eos),
        *(str(model.add_bos), str(model.vocab_size), *model.control_tokens),
    )
    return hashlib.sha256(repr(facts).encode("utf-8", "replace")).hexdigest()[:32]


def reading_of(model: Manifest) -> str:
    """Name what was read from a model's files and takes effect in a runtime, weights apart.

    Whatever a manifest may say one day counts, unless it is named here: a runtime that is loaded
    once too often is better than one that answers by an old template.
    """
    places = {"id": "", "path": "", "files": (), "size_bytes": 0, "digest": ""}
    notes = {"source": "", "licence": "", "created_unix_s": 0, "weight_bytes": 0, "widths": None}
    notes |= {"vector_sizes": ()}
    # It takes effect as the context that it allows, which is one of the options.
    read = msgspec.structs.replace(model, **places, **notes, ctx_train=0)
    return hashlib.sha256(msgspec.json.encode(read)).hexdigest()[:32]


def _check_extra(file: ExtraFile) -> None:
    """Read a file beside a model's own once more; raises `load_failed` where it is another one."""
    try:
        same = digest(Path(file.path)) == file.digest
    except RoostError:
        same = False
    if not same:
        name = Path(file.path).name
        message = f"{name} is not what it was when the node started: start it again."
        raise fail("load_failed", message)
