"""SHELL: one function for each effect of the coordinator; no decisions are left to make here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, assert_never

from roost.fleet.effects import (
    Answer,
    Disconnect,
    Dispatch,
    Effect,
    Report,
    Vacate,
    Waiting,
    Want,
    Withdraw,
)
from roost.gateway.turns import lines

if TYPE_CHECKING:
    from roost.core.ids import NodeId, RequestId
    from roost.gateway.node_link import NodeLink
    from roost.gateway.turns.turn import Turn
    from roost.gateway.watching.watch import Watch
    from roost.observe.logs import Log
    from roost.observe.metrics import Metrics


class Office(Protocol):
    """What performing needs of the mind."""

    @property
    def links(self) -> dict[NodeId, NodeLink]:
        """The links in use, by node."""
        ...

    def unlink(self, node: NodeId) -> NodeLink | None:
        """Take a node's link out of use, and give it back, if there is one."""
        ...

    @property
    def turns(self) -> dict[RequestId, Turn]:
        """The live requests."""
        ...

    @property
    def metrics(self) -> Metrics:
        """Where counts go."""
        ...

    @property
    def watch(self) -> Watch:
        """Who looks for what is odd."""
        ...

    @property
    def now_s(self) -> float:
        """The monotonic clock, seconds."""
        ...

    @property
    def log(self) -> Log:
        """Where events go."""
        ...


def perform(office: Office, effect: Effect) -> None:
    """Carry out one effect."""
    match effect:
        case Dispatch():
            _dispatch(office, effect)
        case Withdraw():
            _withdraw(office, effect)
        case Answer():
            _answer(office, effect)
        case Waiting():
            _waiting(office, effect)
        case Disconnect():
            _disconnect(office, effect)
        case Want():
            _want(office, effect)
        case Vacate():
            _vacate(office, effect)
        case Report():
            _report(office, effect)
        case _:
            assert_never(effect)


def _dispatch(office: Office, effect: Dispatch) -> None:
    turn = office.turns[effect.request]
    office.metrics("roost_queue_seconds").observe(effect.queued_s)
    turn.on_dispatch(effect)
    lines.dispatched(office.log, turn, effect)
    link = office.links[effect.node]
    office.watch.on_dispatch(turn, effect, link.streams, office.now_s)
    link.open(turn, effect)


def _withdraw(office: Office, effect: Withdraw) -> None:
    turn = office.turns.get(effect.request)
    if turn is not None:
        turn.on_withdrawn(effect.attempt)
    link = office.links.get(effect.node)
    if link is not None:
        link.cancel(effect.request, effect.attempt)


def _answer(office: Office, effect: Answer) -> None:
    turn = office.turns.get(effect.request)
    if turn is not None:
        turn.on_refused(effect.failure)


def _waiting(office: Office, effect: Waiting) -> None:
    turn = office.turns.get(effect.request)
    if turn is not None:
        eta = "" if effect.eta_s is None else f", about {effect.eta_s:.0f} s"
        turn.on_waiting(f"queued {effect.position}/{effect.length}{eta}")


def _disconnect(office: Office, effect: Disconnect) -> None:
    link = office.unlink(effect.node)
    if link is not None:
        link.shut(effect.failure)


def _want(office: Office, effect: Want) -> None:
    link = office.links.get(effect.node)
    if link is not None:
        office.log.info("model_wanted", node=effect.node, model=effect.model)
        link.want(effect.model)


def _vacate(office: Office, effect: Vacate) -> None:
    link = office.links.get(effect.node)
    if link is not None:
        link.vacate(vacant=effect.vacant)


def _report(office: Office, effect: Report) -> None:
    facts = {
        name: value
        for name in ("node", "request", "model", "state", "reason")
        if (value := getattr(effect, name)) is not None
    }
    turn = office.turns.get(effect.request) if effect.request is not None else None
    if turn is not None and turn.label:
        facts["session"] = turn.label
    match effect.event:
        case "node_joined":
            office.log.info("node_joined", **facts)
        case "node_state":
            office.log.warning("node_state", **facts)
        case "node_left":
            office.log.warning("node_left", **facts)
        case "request_retried":
            office.metrics("roost_retries_total", str(effect.reason)).inc()
            office.log.info("request_retried", **facts)
        case "request_cut":
            office.log.info("request_cut", **facts)
        case "request_replayed":
            office.metrics("roost_replays_total", str(effect.reason)).inc()
            office.log.info("request_replayed", **facts)
        case "request_shed":
            office.metrics("roost_shed_total", str(effect.reason)).inc()
            office.log.debug("request_shed", **facts)
        case _:
            assert_never(effect.event)
