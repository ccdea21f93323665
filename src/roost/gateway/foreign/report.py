"""DECIDER: a worker's heartbeat as the report of a node."""

from __future__ import annotations

import msgspec

from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import ModelOffer, NodeStatus, RuntimeView, SessionsView
from roost.core.worker import WorkerBeat, WorkerModel

ENGINE = "system-1"


class OfferSettings(msgspec.Struct, frozen=True):
    """What counts for a worker that does not say it: its model ("" for none), slots, context."""

    model: str = ""
    slots: int = 4
    context_tokens: int = 2048


class Load(msgspec.Struct, frozen=True):
    """What this gateway has on a worker: streams, and sessions that wait for their next turn.

    `rests` says that nothing new is to begin there, `vacant` that nobody comes back.
    """

    running: int = 0
    sessions: int = 0
    rests: bool = False
    vacant: bool = False


def report(beat: WorkerBeat, settings: OfferSettings, instance: str, load: Load) -> NodeStatus:
    """Report everything that a coordinator of ours decides by; all its models are loaded."""
    models = beat.models or _default(settings)
    slots, engine = beat.slots or settings.slots, beat.engine or ENGINE
    offers = tuple(
        ModelOffer(
            model=one.model,
            slots=slots,
            ctx=one.ctx or settings.context_tokens,
            kv_token_bytes=one.kv_token_bytes,
            backend=engine,
            serves="turns" if beat.sampling else "plain_turns",
        )
        for one in models
    )
    return NodeStatus(
        models=offers,
        runtimes=tuple(
            RuntimeView(one.model, engine, "ready", RuntimeId(instance), ctx=one.ctx)
            for one in offers
        ),
        in_flight=load.running,
        # Who is not heard of for a while is waited for, like a node that is silent.
        max_in_flight=0 if load.rests or not beat.health.alive else slots,
        draining=beat.health.draining,
        sessions=SessionsView(ram=load.sessions),
        vacant=load.vacant,
    )


def _default(settings: OfferSettings) -> tuple[WorkerModel, ...]:
    return (WorkerModel(ModelId(settings.model)),) if settings.model else ()
