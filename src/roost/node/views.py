"""DECIDER: what a node says of its runtimes, and of the room for others."""

from __future__ import annotations

from roost.core.snapshots import LoadView, RuntimeView
from roost.node.desk import Desk
from roost.node.models.boarding import known_bytes
from roost.node.models.residency import Residence
from roost.node.statistics import AgentStatistics
from roost.node.workshop import Workshop


def runtime_view(residence: Residence, workshop: Workshop, backend: str, now: float) -> RuntimeView:
    """One model's lane; `backend` is the one to name where the offer names none."""
    name, ledger = residence.runtime, workshop.ledger
    floor = workshop.floors.get(name)
    offer = workshop.offers.get(residence.model)
    free = floor is not None and not floor.streams and name is not None
    return RuntimeView(
        model=residence.model,
        backend=(offer.backend if offer else "") or backend,
        state=residence.state,
        runtime=name,
        slots=floor.slots.views() if floor else (),
        ctx=offer.ctx if offer else 0,
        load_s=residence.load_s,
        failure=residence.failure.message if residence.failure else None,
        progress=workshop.progress.of(name) if name is not None else None,
        resident_s=ledger.resident_s(name, now) if name is not None else None,
        idle_s=ledger.idle_s(name, now) if free and name is not None else None,
        evict_in_s=ledger.evict_in_s(name, now) if free and name is not None else None,
        waiting=residence.waiting,
        loading_s=None if residence.began_s is None else max(0.0, now - residence.began_s),
        pinned=workshop.stays.is_pinned(residence.model) and name is not None,
        vitals=floor.vitals.view(now) if floor is not None else None,
        unload_in_s=workshop.stays.left_s(floor, now) if floor is not None else None,
    )


def glance(desk: Desk, workshop: Workshop, stalls: int) -> AgentStatistics:
    """What there is here and what there was; links and draining are the agent's to say."""
    alive = [one for one in workshop.residency.residences() if one.runtime is not None]
    return AgentStatistics(
        opened=desk.opened,
        released=desk.released,
        refused=desk.refused,
        live=len(desk),
        in_flight=desk.in_flight(),
        links=0,
        loads=workshop.loads,
        runtimes=len(alive),
        stalls=stalls,
        draining=False,
        writing=workshop.sessions.writing,
    )


def load_views(workshop: Workshop, now: float) -> tuple[LoadView, ...]:
    """What it would take to load each model that has no runtime and does not simply fit."""
    residences = workshop.residency.residences()
    present = {one.model for one in residences if one.runtime is not None}
    model_of = {one.runtime: one.model for one in residences if one.runtime is not None}
    pinned = workshop.floors.pinned()
    views = []
    for model, offer in workshop.offers.items():
        if model in present:
            continue
        of = offer.device, offer.backend
        room = workshop.ledger.room(known_bytes(offer), pinned, now, *of)
        if not room.why and not room.evict:
            continue
        evicts = tuple(model_of[runtime] for runtime in room.evict)
        in_s = None if room.at_s is None else max(0.0, room.at_s - now)
        views.append(LoadView(model, evicts, room.why, in_s))
    return tuple(views)
