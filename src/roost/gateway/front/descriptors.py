"""SHELL: as many file descriptors as the connections need, and no more connections than fit.

The usual soft limit is 1024, far under the usual hard one: every service is meant to raise it. A
front that ran out of descriptors could accept nobody, not even to say that it is full.
"""

from __future__ import annotations

import msgspec

from roost.gateway.front.limits import FrontLimits
from roost.observe import logs

RESERVE = 128
"""Descriptors for everything else: files, links, runtimes, connections on their way out."""


def fitted(limits: FrontLimits) -> FrontLimits:
    """Raise this process's limit as far as needed and clamp the connections to what it leaves."""
    room = _room_for(limits.connections_max)
    if room >= limits.connections_max:
        return limits
    logs.get().warning("connections_clamped", wanted=limits.connections_max, connections_max=room)
    return msgspec.structs.replace(limits, connections_max=room)


def _room_for(connections: int) -> int:
    try:
        import resource
    except ImportError:  # no such limit on this system
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + RESERVE
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        except (OSError, ValueError):
            raised = soft  # some systems have a lower limit than the one that they name
        soft = raised
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return connections
    return max(1, soft - min(RESERVE, soft // 2))
