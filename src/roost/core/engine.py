"""VALUE: options of an engine beyond context, slots and step; all of them are part of a key."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.core.kv import CacheType

Flash: TypeAlias = Literal["auto", "on", "off"]
MemoryMap: TypeAlias = Literal["auto", "on", "off"]
Pooling: TypeAlias = Literal["", "mean", "cls", "last"]
Mode: TypeAlias = Literal["generate", "embed", "rank", "auto"]
"""What a runtime is for: it says texts, makes a vector of each that it is given, or scores texts.

`auto` is what its model is for; the key of a runtime says which.
"""

_DOES = {"generate": "says texts", "embed": "makes vectors", "rank": "scores documents"}
_LACKS = {"generate": "says no texts", "embed": "makes no vectors", "rank": "scores no documents"}


class ExtraFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file beside a model's own, by its place and `sha256:…`; `scale` is how much it counts."""

    path: str
    digest: str
    scale: float = 1.0


class Engine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What llama.cpp may be told; each default leaves it to the engine.

    `threads_batch` are for prefill, `ubatch` tokens of a step are computed at once; 0 is as for
    decode, and as many as a step has. `gpu_layers` and `main_gpu` are counted from 0, -1 is the
    engine's own choice. `step_budget_ms` is about how long a step of prefill may take; 0 is as long
    as it takes. `pooling` makes one vector of a text's many, "" as the model was trained to.
    `projector` makes pictures readable; `adapters` are LoRA. `arguments` are for a program, behind
    all others.
    """

    threads_batch: int = 0
    ubatch: int = 0
    key_type: CacheType = "f16"
    value_type: CacheType = "f16"
    flash_attention: Flash = "auto"
    gpu_layers: int = -1
    main_gpu: int = -1
    kv_offload: bool = True
    mmap: MemoryMap = "auto"
    mlock: bool = False
    step_budget_ms: int = 0
    pooling: Pooling = ""
    projector: ExtraFile | None = None
    adapters: tuple[ExtraFile, ...] = ()
    arguments: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[ExtraFile, ...]:
        """Files that it reads beside the model's own."""
        return (self.projector, *self.adapters) if self.projector else self.adapters


def lack(own: Mode, asked: Mode) -> str:
    """Say what a model of one mode does, and that it does not do what is asked."""
    return f"{_DOES[own]} and {_LACKS[asked]}"
