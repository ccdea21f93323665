"""WIRING: from settings and stores to a running node."""

from __future__ import annotations

import math
import secrets
import socket
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from roost import __version__
from roost.backends.base import StartSettings
from roost.backends.registry import NAMES, abouts, chosen, here, look, make
from roost.cli.parts.engines import options_of, own_options, sizes_of
from roost.cli.parts.pulling import check_endpoint, pull_settings
from roost.cli.parts.states import kept_of, salted
from roost.config.load import read_option
from roost.config.setting import DAY_S
from roost.core.choice import AUTO
from roost.core.footprint import HOST
from roost.core.ids import ModelId
from roost.core.machine import Processor
from roost.core.model import Manifest
from roost.errors import fail
from roost.node.agent import Agent
from roost.node.floor.pace import PaceSettings
from roost.node.loop import LoopSettings, NodeLoop
from roost.node.machine import machine
from roost.node.machine.about import Describer
from roost.node.machine.copies import copy_max_bytes
from roost.node.machine.cores import cores_to_stay_on, threads_where_open
from roost.node.machine.machine import memory
from roost.node.models.choosing import Chooser
from roost.node.models.ledger import RoomSettings
from roost.node.models.pressure import PressureSettings
from roost.node.models.pulls import Puller
from roost.node.models.shelf import COUNTING, Shelf, ShelfSettings
from roost.node.models.stays import StaySettings
from roost.node.prompts.counters import Counters
from roost.node.settings import AgentSettings, LoopTimes
from roost.node.states.keeping import KeepSettings
from roost.node.states.session_settings import SessionSettings
from roost.observe import logs
from roost.store.calibration import Calibration
from roost.store.models.inspection import Digests
from roost.store.paces import Paces
from roost.store.pulling.sources import FileSource, parse_source
from roost.store.states import free_bytes
from roost.wire.heartbeat import LinkSettings
from roost.wire.messages import OLDEST, VERSION, Hello, Pull
from roost.wire.pump import PumpSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roost.backends.base import Runtime
    from roost.backends.choosing import Subject
    from roost.cli.parts.places import Places
    from roost.cli.parts.stores import Stores
    from roost.config import Settings
    from roost.core.about import BackendAbout, NodeAbout
    from roost.core.choice import Choice
    from roost.core.ids import NodeId, RuntimeId
    from roost.store.pulling.pull import Watch

NODE_SETTINGS = (
    "slots",
    "max_in_flight",
    "max_runtimes",
    "max_runtime_bytes",
    "transformers_model_cache_size",
    "onnx_genai_model_cache_size",
    "ctx",
    "batch",
    "threads",
    "threads_batch",
    "ubatch",
    "cache_type_k",
    "cache_type_v",
    "flash_attn",
    "gpu_layers",
    "main_gpu",
    "kv_offload",
    "mmap",
    "mlock",
    "step_budget_ms",
    "projector",
    "adapters",
    "llama_args",
    "device",
    "dtype",
    "mode",
    "pooling",
    "vector_sizes",
    "embed.tokens_max",
    "model_options",
    "backend",
    "llama_server",
    "runtime.",
    "memory.",
    "models.",
    "hub.",
    "offline",
    "render.",
    "sessions.",
)


class Parts(NamedTuple):
    """A node and what its models are looked up in."""

    node: NodeLoop
    shelf: Shelf

    async def set_models(self, models: tuple[Manifest, ...]) -> None:
        """Serve these models from now on."""
        await self.node.set_models(self.shelf.update(models))


def open_node(
    settings: Settings, stores: Stores, models: Sequence[Manifest], node: NodeId, places: Places
) -> Parts:
    """Put a node together; `places` are folders that are private to it."""
    processor, logs_folder = machine.processor(), str(stores.home.logs / node)
    wanted = _shelf_settings(settings, logs_folder, places, processor)
    shelf = Shelf(models, chooser(settings), wanted)
    shelf.weigh_with(Calibration(stores.home), memories(settings))
    # Steps take as long as this processor, and so many of its cores, take for them.
    shelf.pace_with(Paces(stores.home, f"{processor.model or 'unknown'} {processor.threads}"))
    # Every start is another instance, so that a gateway can tell a new life from a new link.
    instance = secrets.token_hex(8)
    software = f"roost {__version__}"
    hello = Hello(OLDEST, node, socket.gethostname(), instance, software, newest=VERSION)
    agent = Agent(agent_settings(settings, places), shelf.offers())
    limits = _loop_settings(settings, places)
    loop = NodeLoop(agent, shelf.start, hello, limits, time.monotonic, logs.get())
    glibc = machine.glibc()
    shelf.copy_with(
        lambda: copy_max_bytes(memory(), machine.huge_pages(), glibc, loop.mapped_bytes)
    )
    loop.check_with(shelf.check)
    loop.count_with(Counters(shelf.start_counter, settings.runtime_count_keep_s, logs.get()))
    shelf.tell_with(loop.set_models)
    describe = Describer(partial(_abouts, settings), time.monotonic, places.persistence)

    async def describe_and_learn(runtimes: Mapping[RuntimeId, Runtime]) -> NodeAbout:
        await shelf.learn(tuple(runtimes.values()))
        return await describe(runtimes)

    loop.describe_with(describe_and_learn)
    loop.salt_with(salted(stores.home))
    reuse = settings.sessions_reuse != "disabled"
    loop.begin_with(places.found, kept_of(places.found, reuse=reuse))
    loop.weigh_with(memory, shelf.note)
    if settings.models_pulls == "allow" and not settings.offline:
        loop.pull_with(Puller(partial(_fetched, settings, stores), logs.get()))
    return Parts(loop, shelf)


def chooser(settings: Settings) -> Chooser:
    """Say who chooses backends, by what is asked for and what there is here."""

    def choose(subject: Subject, spoilt: Mapping[str, str]) -> Choice:
        around = msgspec.structs.replace(here(settings.llama_server), spoilt=spoilt)
        return chosen(settings.backend, subject, around)

    return Chooser(choose, partial(make, llama_server_path=settings.llama_server), logs.get())


def _fetched(settings: Settings, stores: Stores, asked: Pull, watch: Watch) -> str:
    """Install what an operator of a gateway asks for; never a path of this machine."""
    from roost.store.pulling.pull import Request, pull

    if isinstance(parse_source(asked.source), FileSource):
        raise fail("bad_request", "Files of this machine are installed on it.")
    request = Request(asked.source, asked.file, accepted=asked.accepted)
    return pull(stores.models, request, pull_settings(settings), watch).manifest.id


def check_node(settings: Settings) -> None:
    """Refuse what a node could not be made with, before anything starts."""
    check_backend(settings)
    kept_alive(settings.runtime_keep_alive)
    check_endpoint(settings)


def check_backend(settings: Settings) -> None:
    """Refuse a backend that is not in the list."""
    names = (AUTO, *NAMES)
    if settings.backend not in names:
        message = f"--backend: there is no backend {settings.backend!r}; there are "
        raise fail("bad_request", message + ", ".join(names) + ".", param="backend")


def preloaded(settings: Settings, models: Sequence[Manifest]) -> ModelId | None:
    """Name the model to load at once: the default one, or the only one."""
    names = [model.id for model in models]
    if settings.default_model in names:
        return ModelId(settings.default_model)
    return names[0] if len(names) == 1 else None


def memories(settings: Settings) -> dict[str, str]:
    """Name the memory that each backend's models are in."""
    found = look(settings.llama_server)
    return {
        name: HOST if one.accelerator in ("cpu", "metal") else one.accelerator
        for name, one in found.items()
    }


def _loop_settings(settings: Settings, places: Places) -> LoopSettings:
    link = LinkSettings(ping_s=settings.link_ping_s, dead_s=settings.link_dead_s)
    pump = PumpSettings(message_max_bytes=settings.link_message_max_bytes)
    keep = KeepSettings(
        memory=f"{places.memory}/held",
        folder=places.disk,
        timeout_s=settings.sessions_move_timeout_s,
        lasts=places.persistence == "disk",
        required=settings.sessions_reuse == "required",
    )
    grace_s = settings.runtime_stop_grace_s
    return LoopSettings(stop_grace_s=grace_s, keep=keep, link=link, pump=pump)


def _session_settings(settings: Settings, places: Places) -> SessionSettings:
    """Take the limits, and at most half of what there is: others live in the same memory."""
    return SessionSettings(
        ram_bytes=min(settings.sessions_ram_bytes, free_bytes(Path(places.memory)) // 2),
        disk_bytes=settings.sessions_disk_bytes,
        parked_max=settings.sessions_max,
        tokens_min=settings.sessions_tokens_min,
        shared_tokens_min=settings.sessions_shared_tokens_min,
        shared_wait_s=settings.sessions_shared_wait_s,
        idle_s=settings.sessions_idle_s,
        persistence=places.persistence,
        close_s=settings.sessions_close_s,
    )


def loop_times(settings: Settings) -> LoopTimes:
    """Say what the node's shell may take."""
    return LoopTimes(
        stop_grace_s=settings.runtime_stop_grace_s,
        move_timeout_s=settings.sessions_move_timeout_s,
        count_keep_s=settings.runtime_count_keep_s,
    )


def agent_settings(settings: Settings, places: Places) -> AgentSettings:
    """Give the limits of a node; raises `bad_request`."""
    backend = settings.backend if settings.backend != "auto" else "llama_server"
    pace = PaceSettings(
        settings.runtime_stall_s, settings.runtime_stall_floor_s, settings.runtime_load_stall_s
    )
    room = RoomSettings(
        max_runtimes=settings.max_runtimes,
        max_bytes=settings.max_runtime_bytes,
        min_resident_s=settings.runtime_min_resident_s,
        turn_s=settings.runtime_turn_s,
        wait_s=settings.runtime_room_wait_s,
        evict=settings.runtime_evict == "idle",
        kept=kept_at_once(settings),
    )
    own_slots = any(read_option(text)[1] == "slots" for text in settings.model_options)
    # Where models differ in slots, as many as slots is another number for each of them.
    follows = own_slots and settings.max_in_flight == settings.slots
    most = None if follows else settings.max_in_flight
    sessions = _session_settings(settings, places)
    return AgentSettings(
        backend=backend,
        max_in_flight=most,
        vectors_tokens_max=settings.embed_tokens_max,
        cold_counts=COUNTING,
        sessions=sessions,
        room=room,
        stay=StaySettings(settings.runtime_keep_alive_s, kept_alive(settings.runtime_keep_alive)),
        pace=pace,
        pressure=PressureSettings(
            settings.memory_soft_share, settings.memory_hard_share, settings.memory_full_share
        ),
    )


def _abouts(settings: Settings) -> tuple[BackendAbout, ...]:
    """Look at the backends, and say how many models of each are kept here."""
    kept = kept_at_once(settings)
    found = abouts(settings.llama_server)
    return tuple(msgspec.structs.replace(one, kept=kept.get(one.name)) for one in found)


def kept_at_once(settings: Settings) -> dict[str, int]:
    """Say how many runtimes of single backends there may be at a time."""
    return {
        "transformers": settings.transformers_model_cache_size,
        "onnx_genai": settings.onnx_genai_model_cache_size,
    }


def kept_alive(texts: tuple[str, ...]) -> dict[str, float]:
    """Read how long idle runtimes of single models are kept; raises `bad_request`."""
    found: dict[str, float] = {}
    for text in texts:
        model, _, said = text.rpartition("=")
        try:
            found[model] = float(said)
        except ValueError:
            found[model] = math.nan
        if not model or not -1 <= found[model] <= DAY_S:
            message = (
                f"--runtime-keep-alive {text}: write a model, = and seconds, at most {DAY_S:g}; "
                "-1 is for ever."
            )
            raise fail("bad_request", message, param="runtime.keep_alive")
    return found


def _shelf_settings(
    settings: Settings, log_folder: str, places: Places, processor: Processor
) -> ShelfSettings:
    # Models may share an adapter of gigabytes.
    look = Digests().of
    return ShelfSettings(
        options=options_of(settings, look),
        own_options=own_options(settings, look),
        vector_sizes=sizes_of(settings),
        folder=places.work,
        state_folder=places.memory if settings.sessions_ram_bytes else "",
        log_folder=log_folder,
        start=StartSettings(
            workdir=places.work,
            log_path="",
            start_timeout_s=settings.runtime_start_timeout_s,
            release_timeout_s=settings.runtime_release_timeout_s,
            memory_max_bytes=settings.runtime_memory_max_bytes,
            render_timeout_s=settings.render_timeout_s,
            render_output_max_bytes=settings.render_output_max_bytes,
            log_max_bytes=settings.runtime_log_max_bytes,
            logs_kept=settings.runtime_logs_kept,
            cores=cores_to_stay_on(processor, machine.cores()),
            threads=threads_where_open(processor),
        ),
    )
