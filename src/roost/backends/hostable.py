"""VALUE: a library that can be hosted, before anything of it is imported."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from roost.core.choice import Accelerator
from roost.core.model import Capabilities


class Library(msgspec.Struct, frozen=True):
    """A library that can be hosted: `loader` is `module:function` of its adapter, for the child.

    `imports` are the modules that have to be installed, `extra` the set of optional dependencies
    that brings them, "" for none. `builds` are packages that bring the first of them for an
    accelerator.
    """

    name: str
    title: str
    loader: str
    capabilities: Capabilities
    imports: tuple[str, ...] = ()
    extra: str = ""
    builds: Mapping[str, Accelerator] = {}
