"""MACHINE: limits that change while a node runs: they count from now on, and undo nothing.

Who has begun goes on, and who is here stays: a limit that became lower is kept by those who come.
What a runtime was promised when it became ready, the time for which it makes room for nobody, it
keeps. Where files lie, and how many bytes of them there may be, is settled when a node begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from roost.node.effects import Effect
    from roost.node.relief import Relief
    from roost.node.settings import AgentSettings
    from roost.node.states.sessions import Sessions
    from roost.node.workshop import Workshop


def follow(settings: AgentSettings, workshop: Workshop, relief: Relief, now: float) -> list[Effect]:
    """Have every part go by these limits; returns what has to be done with files."""
    workshop.settings = settings
    workshop.residency.limit(settings.room)
    workshop.stays.settings = settings.stay
    workshop.progress.patience_s = settings.pace.load_stall_s
    for floor in workshop.floors:
        floor.pace_by(settings.pace)
    relief.gauges.settings = settings.pressure
    return _follow_sessions(settings, workshop.sessions, now)


def _follow_sessions(settings: AgentSettings, sessions: Sessions, now: float) -> list[Effect]:
    old = sessions.settings
    places = {"ram_bytes": old.ram_bytes, "disk_bytes": old.disk_bytes}
    sessions.settings = msgspec.structs.replace(
        settings.sessions, persistence=old.persistence, **places
    )
    # Nobody is added, and who is too many goes.
    return sessions.on_kept((), now)
