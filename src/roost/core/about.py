"""VALUE: what a node says of its machine, its engines and its runtimes; advice, like any report."""

from __future__ import annotations

from typing import Literal

import msgspec

from roost.core.choice import Accelerator
from roost.core.ids import RuntimeId
from roost.core.machine import Device, Memory, Processor

Anomaly = Literal["slow_decode", "slow_prefill", "memory_growth"]
"""What is odd about a runtime, measured by its own past."""

Persistence = Literal["ephemeral", "memory", "disk"]


class BackendAbout(msgspec.Struct, frozen=True):
    """One backend of a node: whether it can be used there, and what it claims to do.

    `claims` are names of `core.model.Capabilities`; `why` and `command` say what is in the way and
    what to type, "" where nothing is or nothing helps. An `external` one asks a server that is
    somebody else's. `kept` is how many of its models a node keeps loaded, None for no limit.
    """

    name: str
    usable: bool
    version: str | None = None
    accelerator: Accelerator = "cpu"
    claims: tuple[str, ...] = ()
    why: str = ""
    command: str = ""
    external: bool = False
    kept: int | None = None


class RuntimeAbout(msgspec.Struct, frozen=True):
    """One runtime's own figures; unknown ones are None.

    `live` counts sequences that hold a slot, the rates are those of its last answer. `states` says
    whether what slots hold could be saved and brought back when that was tried at its start.
    `step_tokens` of a prompt are computed at once at most.
    """

    runtime: RuntimeId
    live: int | None = None
    rss_bytes: int | None = None
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    states: bool | None = None
    step_tokens: int | None = None


class RuntimeVitals(msgspec.Struct, frozen=True):
    """How a runtime does, as its node counts: rates of the last seconds, and what is odd.

    `prefill_last_s` and `prefill_avg_s` are from a slot to the first text, `generated_tokens` and
    `failures` since it was ready. A rate of 0 is measured: it did nothing.
    """

    prefill_last_s: float | None = None
    prefill_avg_s: float | None = None
    decode_tokens_per_s: float = 0.0
    generated_tokens: int = 0
    failures: int = 0
    anomalies: tuple[Anomaly, ...] = ()


class NodeAbout(msgspec.Struct, frozen=True):
    """Everything a node says of itself beside what is there to be asked for.

    `persistence` is what its idle conversations' KV outlives: nothing (`ephemeral`), its runtime
    (`memory`) or the node (`disk`); None from one that does not say.
    """

    processor: Processor
    memory: Memory
    devices: tuple[Device, ...] = ()
    backends: tuple[BackendAbout, ...] = ()
    runtimes: tuple[RuntimeAbout, ...] = ()
    persistence: Persistence | None = None
