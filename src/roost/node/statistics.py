"""VALUE: a node's agent at a glance."""

from __future__ import annotations

import msgspec


class AgentStatistics(msgspec.Struct, frozen=True):
    """The agent at a glance; `opened` is `released` + `live` at all times.

    `refused` counts among the released, `runtimes` those alive or loading, `stalls` the runtimes
    replaced, and the loads called off, because nothing moved; `writing` the files that are to
    outlive the node and do not yet.
    """

    opened: int
    released: int
    refused: int
    live: int
    in_flight: int
    links: int
    loads: int
    runtimes: int
    stalls: int
    draining: bool
    writing: int = 0
