"""VALUE: a library that can be hosted, before anything of it is imported."""

from __future__ import annotations

import msgspec

from roost.core.model import Capabilities


class Library(msgspec.Struct, frozen=True):
    """A library that can be hosted: `loader` is `module:function` of its adapter, for the child.

    `imports` are the modules that have to be installed, `extra` the set of optional dependencies
    that brings them, "" for none.
    """

    name: str
    title: str
    loader: str
    capabilities: Capabilities
    imports: tuple[str, ...] = ()
    extra: str = ""
