"""WIRING: nodes that are defective about orders, pins and memory, and where each of them shows."""

from __future__ import annotations

from collections.abc import Container, Sequence

from roost.core.footprint import HOST
from roost.core.ids import RuntimeId
from roost.core.snapshots import ModelOffer
from roost.node.agent import Agent
from roost.node.floor.floor import Floor
from roost.node.floor.floors import Floors
from roost.node.models.ledger import Ledger, Room
from roost.node.models.pressure import Gauges
from roost.node.orders import Orders
from roost.node.settings import AgentSettings
from roost.sim.mutants.fittings import Case, agent
from roost.wire.messages import Order


class _Rude(Orders):
    def take(self, order: Order, now: float, *, draining: bool) -> None:
        """Whatever is to be unloaded goes at once, with what runs on it."""
        floor = self._workshop.floors.get(self._workshop.residency.runtime_of(order.model))
        if order.what == "unload" and floor is not None:
            self._workshop.let_go(floor.runtime, now)
            self._workshop.floors.unload(floor.runtime)
        super().take(order, now, draining=draining)


class _Curt(Orders):
    def take(self, order: Order, now: float, *, draining: bool) -> None:
        """What is to be unloaded goes if nothing runs on it yet."""
        floor = self._workshop.floors.get(self._workshop.residency.runtime_of(order.model))
        if order.what == "unload" and floor is not None and not _is_running(floor):
            self._workshop.let_go(floor.runtime, now)
        super().take(order, now, draining=draining)


class _Hasty(Orders):
    def _look(self, now: float) -> bool:
        """What has been begun is done."""
        for one in list(self._open.values()):
            del self._open[one.order.job]
            self._end(one.order, None)
        return False


class _Forgetful(Orders):
    def _look(self, now: float) -> bool:
        """Nobody looks again at what was begun."""
        return False

    def next_tick(self) -> float | None:
        """Nor waits for it."""
        return None


class _Unpinned(Ledger):
    def pin(self, runtime: RuntimeId, *, pinned: bool) -> None:
        """A pin is only told of."""


class _Lending(Ledger):
    def enter(
        self,
        runtime: RuntimeId,
        need_bytes: int,
        now: float,
        device: str = HOST,
        backend: str = "",
    ) -> None:
        """A load takes nothing before it is measured."""
        super().enter(runtime, 0, now, device, backend)


class _Crowded(Ledger):
    def room(
        self,
        need_bytes: int,
        pinned: Container[RuntimeId],
        now: float,
        device: str = HOST,
        backend: str = "",
    ) -> Room:
        """What a backend keeps is no matter."""
        return super().room(need_bytes, pinned, now, device)


class _Impatient(Ledger):
    def rests_until_s(self, runtime: RuntimeId, keep_s: float) -> float | None:
        """Idle ones go, however short they have been there."""
        until_s = super().rests_until_s(runtime, keep_s)
        return None if until_s is None else self._residents[runtime].used_s


class _Restless(Gauges):
    def to_free(self, now: float) -> dict[str, int]:
        """A pass is made with every measurement."""
        for device in self._devices.values():
            device.relieved = 0
        self._relieved_at = None
        return super().to_free(now)


class _Blind(Floors):
    def pinned(self) -> frozenset[RuntimeId]:
        """Who has only begun does not count."""
        return frozenset(floor.runtime for floor in self if _is_running(floor))

    def unload_if_idle(self, floor: Floor, now: float) -> None:
        """Nor does it keep what is to go."""
        if floor.is_retiring and not _is_running(floor):
            self.unload(floor.runtime)


def _is_running(floor: Floor) -> bool:
    return any(stream.phase != "preparing" for stream in floor.streams.values())


class _WithOrders(Agent):
    orders: type[Orders] = Orders

    def __init__(self, settings: AgentSettings, offers: Sequence[ModelOffer]) -> None:
        super().__init__(settings, offers)
        self._orders = self.orders(self._workshop)


class _WithLedger(Agent):
    ledger: type[Ledger] = Ledger

    def __init__(self, settings: AgentSettings, offers: Sequence[ModelOffer]) -> None:
        super().__init__(settings, offers)
        # Several machines hold it: it is the same one, and keeps its books otherwise.
        self._workshop.ledger.__class__ = self.ledger


class UnloadsTheBusy(_WithOrders):
    """An order ends what runs."""

    orders = _Rude


class SaysDoneTooSoon(_WithOrders):
    """An order is done when it was begun."""

    orders = _Hasty


class ForgetsOrders(_WithOrders):
    """An order that cannot be done at once never ends."""

    orders = _Forgetful


class OverlooksPins(_WithLedger):
    """Pinned runtimes make room like others."""

    ledger = _Unpinned


class LendsMemory(_WithLedger):
    """Two loads are granted the same memory."""

    ledger = _Lending


class KeepsTooMany(_WithLedger):
    """More runtimes of one backend than it keeps."""

    ledger = _Crowded


class KeepsNothingAlive(_WithLedger):
    """An idle runtime goes at once, however young."""

    ledger = _Impatient


class OverlooksBeginners(_WithOrders):
    """A runtime goes from under a request that is still being prepared."""

    orders = _Curt

    def __init__(self, settings: AgentSettings, offers: Sequence[ModelOffer]) -> None:
        super().__init__(settings, offers)
        self._workshop.floors.__class__ = _Blind


class RelievesAlways(Agent):
    """Everything idle goes as long as memory is short."""

    def __init__(self, settings: AgentSettings, offers: Sequence[ModelOffer]) -> None:
        super().__init__(settings, offers)
        self._relief.gauges = _Restless(settings.pressure)


CASES: tuple[Case, ...] = (
    ("unloaded under requests", agent(UnloadsTheBusy), "by_hand", "busy_runtimes_stay"),
    ("orders done too soon", agent(SaysDoneTooSoon), "by_hand", "orders_end"),
    ("orders forgotten", agent(ForgetsOrders), "by_hand", "orders_end"),
    ("pins overlooked", agent(OverlooksPins), "by_hand", "pins_hold"),
    ("first requests overlooked", agent(OverlooksBeginners), "by_hand", "firsts_are_served"),
    ("memory lent twice", agent(LendsMemory), "by_hand", "loads_fit"),
    ("idle models at once", agent(KeepsNothingAlive), "by_hand", "runtimes_stay_a_while"),
    ("too many of a backend", agent(KeepsTooMany), "kept_workers", "nodes_keep_to_their_room"),
    ("relieved always", agent(RelievesAlways), "by_hand", "passes_are_few"),
)
