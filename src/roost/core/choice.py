"""VALUE: which backends there are, what each is good for, and which one a model gets and why."""

from __future__ import annotations

from typing import Literal

import msgspec

from roost.core.ids import ModelId
from roost.core.model import Capabilities

Accelerator = Literal["cuda", "rocm", "metal", "vulkan", "cpu"]
AUTO = "auto"
"""The name that leaves the choice to roost."""


class Found(msgspec.Struct, frozen=True):
    """What there is of a backend on this machine, as far as a look without running it tells.

    `why` says what is in the way, "" where nothing is; `command` is what to type then, "" where
    typing does not help, and `extra` the set of optional dependencies that it adds. `version` is
    None where nobody knows. `apart` is what there is for formats for which that is another thing.
    """

    usable: bool
    version: str | None = None
    accelerator: Accelerator = "cpu"
    why: str = ""
    command: str = ""
    extra: str = ""
    apart: dict[str, Found] = {}

    def of(self, format_: str) -> Found:
        """Say what there is for models of this format."""
        return self.apart.get(format_, self)


class Trait(msgspec.Struct, frozen=True):
    """What is fixed about a backend.

    `formats` are the model formats it reads, `platforms` the values of `sys.platform` it runs on,
    none for every one. `priorities` say how much `auto` prefers it on which accelerator. An
    `external` one asks a server that is somebody else's.
    """

    name: str
    formats: tuple[str, ...]
    priorities: dict[Accelerator, int]
    capabilities: Capabilities
    platforms: tuple[str, ...] = ()
    external: bool = False


class Candidate(msgspec.Struct, frozen=True):
    """One backend as a candidate for a model; `reason` is a sentence, `priority` 0 if rejected."""

    backend: str
    accepted: bool
    reason: str
    priority: int = 0


class Choice(msgspec.Struct, frozen=True):
    """What runs a model: `backend`, "" for none, out of `candidates`, best first.

    `wanted` is what the settings ask for, `auto` or a name, which binds. `chain` holds the accepted
    ones in the order in which they are tried, the chosen one first.
    """

    model: ModelId
    wanted: str
    backend: str
    reason: str
    candidates: tuple[Candidate, ...]
    chain: tuple[str, ...] = ()

    @property
    def is_fallback(self) -> bool:
        """Whether a backend that reads the format would have been preferred, and cannot be."""
        return bool(self.backend) and self.candidates[0].backend != self.backend
