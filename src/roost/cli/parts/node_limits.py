"""WIRING: which settings a running node follows on HUP."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roost.cli.parts.node import Parts, agent_settings, loop_times
from roost.cli.reloading import Taker
from roost.config.load import read_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.cli.parts.places import Places
    from roost.config import Settings
    from roost.node.settings import AgentSettings

NODE = (
    *("max_in_flight", "max_runtimes", "max_runtime_bytes", "step_budget_ms", "embed.tokens_max"),
    *("transformers_model_cache_size", "onnx_genai_model_cache_size", "runtime.evict"),
    *("runtime.min_resident_s", "runtime.keep_alive_s", "runtime.keep_alive", "runtime.turn_s"),
    *("runtime.room_wait_s", "runtime.load_stall_s", "runtime.stall_s", "runtime.stall_floor_s"),
    *("runtime.stop_grace_s", "runtime.count_keep_s"),
    *("memory.soft_share", "memory.hard_share", "memory.full_share"),
    *("sessions.max", "sessions.tokens_min", "sessions.shared_tokens_min", "sessions.idle_s"),
    *("sessions.shared_wait_s", "sessions.close_s", "sessions.move_timeout_s"),
)


def of_node(parts: Parts, running: Settings, places: Places) -> Taker:
    """Have a node follow its limits; what a runtime is made of is settled when the node begins.

    That is but for the time of a step: a runtime that was loaded with another one is replaced.
    """
    options = [read_option(text) for text in running.model_options]
    apart = {model for model, option, _ in options if option == "step_budget_ms"}

    budget_ms = running.step_budget_ms

    def prepare(settings: Settings) -> Callable[[], None]:
        # As many as slots are as many as there are, and not as many as there will be.
        follows = settings.max_in_flight == settings.slots
        most = running.slots if follows else settings.max_in_flight
        told = settings._replace(slots=running.slots, max_in_flight=most)
        told = told._replace(model_options=running.model_options)
        return partial(take, agent_settings(told, places), settings)

    def take(limits: AgentSettings, settings: Settings) -> None:
        nonlocal budget_ms
        parts.node.follow(limits, loop_times(settings))
        if settings.step_budget_ms != budget_ms:
            budget_ms = settings.step_budget_ms
            parts.node.offer(parts.shelf.pace(budget_ms, apart))

    return Taker(NODE, prepare)
