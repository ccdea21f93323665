"""VALUE: a worker of system 1 as its heartbeat describes it."""

from __future__ import annotations

from typing import Literal

import msgspec

from roost.core.ids import ModelId

WorkerStatus = Literal["alive", "stale", "dead"]


class WorkerModel(msgspec.Struct, frozen=True):
    """A model that a worker has loaded: `ctx` tokens for a session's prompts, 0 where unknown."""

    model: ModelId
    ctx: int = 0
    kv_token_bytes: int | None = None


class WorkerHealth(msgspec.Struct, frozen=True):
    """What a worker says of its load."""

    alive: bool = True
    active_sessions: int = 0
    kv_cache_bytes: int = 0
    draining: bool = False


class WorkerBeat(msgspec.Struct, frozen=True):
    """One heartbeat.

    Beyond system 1: `models` it has, decode `slots` (0 where it does not say), whether a decode
    takes `sampling` and stop strings, `key` that its API wants to see, `engine` and `version`.
    """

    worker: str
    url: str
    health: WorkerHealth
    models: tuple[WorkerModel, ...] = ()
    slots: int = 0
    sampling: bool = False
    key: str = ""
    engine: str = ""
    version: str = ""
