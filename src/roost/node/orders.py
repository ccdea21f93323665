"""MACHINE: what operators want done with models here: loads, unloads, pins; and what came of it.

    load    done once the runtime is ready; fails as a load fails, or for want of room
    unload  done once the runtime is gone; one in use goes if it falls idle in the time given, and
            otherwise stays as it is: whoever types a name should not break off answers, nor have
            those wait who come next. `force` does, and takes pinned ones too
    pin     done at once, and so is unpin, which may say how long the model stays unused

After every event of the agent the open orders are looked at; there are none almost always.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roost.core.ids import RuntimeId
from roost.core.snapshots import OrderView
from roost.errors import Failure
from roost.node import refusals
from roost.node.models.boarding import no_model
from roost.node.models.residency import Residence
from roost.node.workshop import Workshop
from roost.wire.messages import Order

OPEN_MAX = 16
VIEWS_MAX = 32
"""Orders that are told of, ended ones included; the oldest ended one goes first."""
FULL = Failure("node_busy", "too many orders are under way on this node", retry_after_s=1)
CALLED_OFF = Failure("load_failed", "the load was called off before it had ended")
AWAITED = Failure("model_in_use", "requests wait for the model to be loaded")
PINNED = Failure(
    "model_in_use", "the model is pinned: unpin it first, or unload it with force, which ends both"
)


@dataclass(slots=True)
class _Open:
    """An order under way; `leaving` is the runtime that has been told to go for it."""

    order: Order
    until_s: float
    leaving: RuntimeId | None = None


class Orders:
    """Carries out orders by way of the workshop."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._open: dict[str, _Open] = {}
        self._views: dict[str, OrderView] = {}
        self.changed = False

    def views(self) -> tuple[OrderView, ...]:
        """Every order that is told of, in the order in which they came."""
        return tuple(self._views.values())

    def take(self, order: Order, now: float, *, draining: bool) -> None:
        """Begin with this; one that is known already is not new."""
        if order.job in self._views:
            return
        self._views[order.job] = OrderView(order.job, order.model, order.what)
        self.changed = True
        failure = self._begin(order, now, draining=draining)
        if failure is not None or order.what in ("pin", "unpin"):
            self._end(order, failure)
            return
        self._open[order.job] = _Open(order, now + order.wait_s)

    def look(self, now: float) -> None:
        """See which orders are over by now; the end of one may be that of another."""
        while self._open and self._look(now):
            pass

    def _look(self, now: float) -> bool:
        before = len(self._open)
        lanes = {one.model: one for one in self._workshop.residency.residences()}
        for one in list(self._open.values()):
            work: Callable[[_Open, Residence | None, float], Failure | bool] = (
                self._load if one.order.what == "load" else self._unload
            )
            outcome = work(one, lanes.get(one.order.model), now)
            if outcome:
                del self._open[one.order.job]
                self._end(one.order, None if outcome is True else outcome)
        return len(self._open) < before

    def next_tick(self) -> float | None:
        """When the next one that waits for a runtime to fall idle has waited for long enough."""
        times = (
            one.until_s
            for one in self._open.values()
            if one.order.what == "unload" and one.leaving is None
        )
        return min(times, default=None)

    def _begin(self, order: Order, now: float, *, draining: bool) -> Failure | None:
        workshop, model = self._workshop, order.model
        runtime = workshop.residency.runtime_of(model)
        if model not in workshop.offers and runtime is None:
            return no_model(model)
        match order.what:
            case "pin":
                workshop.stays.pin(model, runtime)
            case "unpin":
                workshop.stays.unpin(model, runtime, order.keep_s)
            case "unload" if workshop.stays.is_pinned(model) and runtime and not order.force:
                return PINNED
            case "load" if draining:
                return refusals.DRAINING
        if order.what in ("load", "unload") and len(self._open) >= OPEN_MAX:
            return FULL
        return workshop.preload(model, now) if order.what == "load" else None

    def _load(self, one: _Open, lane: Residence | None, now: float) -> Failure | bool:
        """Whether it is ready, or why it will not be; False while nobody knows."""
        model = one.order.model
        turned_away = self._workshop.turned_away.get(model)
        if turned_away is not None:
            return turned_away
        if lane is None:
            return no_model(model)
        if lane.state == "failed" and lane.failure is not None:
            return Failure("load_failed", lane.failure.message)
        if lane.state == "stopping":
            one.leaving = lane.runtime
        elif lane.state == "absent" and not self._workshop.residency.is_awaited(model):
            if one.leaving is None:
                return CALLED_OFF
            # It was on its way out when the order came, and is gone now.
            one.leaving = None
            failure = self._workshop.preload(model, now)
            return failure or self._workshop.turned_away.get(model) or False
        return lane.state == "ready"

    def _unload(self, one: _Open, lane: Residence | None, now: float) -> Failure | bool:
        """Whether it is gone, or why it stays; False while it may yet go."""
        workshop, order = self._workshop, one.order
        if one.leaving is not None:
            return lane is None or lane.runtime != one.leaving
        if lane is None or lane.runtime is None:
            if workshop.residency.forgo(order.model):
                return True
            return AWAITED if now >= one.until_s else False
        if lane.state == "stopping":
            one.leaving = lane.runtime
            return False
        if workshop.stays.is_pinned(order.model) and not order.force:
            # Pinned while this waited: the newer word counts.
            return PINNED
        busy = _why_busy(lane, workshop)
        if busy is not None and not order.force:
            return busy if now >= one.until_s else False
        if order.force:
            workshop.stays.unpin(order.model, lane.runtime)
            workshop.throw_out(lane.runtime, now)
        else:
            workshop.let_go(lane.runtime, now)
        one.leaving = lane.runtime
        return False

    def _end(self, order: Order, failure: Failure | None) -> None:
        self._views[order.job] = OrderView(
            order.job, order.model, order.what, done=failure is None, failure=failure
        )
        self.changed = True
        over = [view.job for view in self._views.values() if view.is_over]
        for job in over[: max(0, len(self._views) - VIEWS_MAX)]:
            del self._views[job]


def _why_busy(lane: Residence, workshop: Workshop) -> Failure | None:
    """Why a runtime is not simply stopped."""
    if lane.state == "loading":
        text = "the model is being loaded: wait until it is there, or unload it with force"
        return Failure("model_in_use", text)
    floor = workshop.floors.get(lane.runtime)
    running = len(floor.streams) if floor is not None else 0
    if not running:
        return None
    requests = "1 request runs" if running == 1 else f"{running} requests run"
    text = f"{requests} on the model: wait for an idle moment, or unload it with force"
    return Failure("model_in_use", text)
