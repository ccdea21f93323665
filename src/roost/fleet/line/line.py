"""MACHINE: the line in front of the fleet: fair between tenants, and never longer than asked for.

The order in which places are offered:

    those who come back from a node, which had their turn before: after a death the shorter ones
    first, which are back the sooner;
    classes: interactive, agent, bulk, but a lower class that waits gets one place in so many;
    in a class, tenants by their share (see `shares`): cost is the tokens a request will probably
    need, weight is the tenant's; without keys an address is a tenant, and its conversations share;
    in a conversation, the earliest deadline, then who came first.

It is one line for all models; the coordinator walks it from the front and passes over those whose
model has no room, so that a full model blocks only itself.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from roost.core.ids import ModelId, RequestId, TenantId
from roost.core.request import CLASSES, ServiceClass
from roost.fleet.line.shares import Shares


class Entry(msgspec.Struct, frozen=True):
    """One waiting request; `cost` in tokens, `deadline_s` a point in time, `talk` its conversation.

    `talk` is empty where the tenant is not to be divided. `again` is how many tokens have to be
    computed again after a failure. A `choosy` one would not take every node that has room, so
    that it waits says nothing about the room for others.
    """

    request: RequestId
    model: ModelId
    tenant: TenantId = TenantId("")
    class_: ServiceClass = "interactive"
    cost: float = 1.0
    weight: float = 1.0
    deadline_s: float = math.inf
    talk: bytes = b""
    again: int = 0
    choosy: bool = False


class News(msgspec.Struct, frozen=True):
    """A request's place in line from 1, the line's length, and how many are ahead for its model."""

    request: RequestId
    model: ModelId
    position: int
    length: int
    ahead: int


_Talk: TypeAlias = tuple[TenantId, bytes]


class Line:
    """Requests in the order in which they will be looked at.

    It does not refuse by itself: the coordinator holds new arrivals to the limit, and
    `surplus` tells it who has to give way.
    """

    def __init__(self, one_in: int = 8) -> None:
        self._one_in = one_in
        self._entries: dict[RequestId, Entry] = {}
        self._back: dict[RequestId, None] = {}
        self._models: Counter[ModelId] = Counter()
        self._fresh: Counter[ModelId] = Counter()
        self._tenants: Counter[TenantId] = Counter()
        self._told: dict[RequestId, tuple[int, int]] = {}
        self._shares: Shares[TenantId] = Shares()
        self._talks: Shares[_Talk] = Shares()
        self._passed: Counter[ServiceClass] = Counter()
        self._order: list[Entry] | None = []
        # The order without the last arrival: a full line turns most arrivals away at once.
        self._before: tuple[RequestId, list[Entry]] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, request: RequestId) -> bool:
        return request in self._entries

    def append(self, entry: Entry) -> None:
        """Add a new arrival."""
        assert entry.request not in self._entries, "a request waits once"
        self._entries[entry.request] = entry
        self._models[entry.model] += 1
        self._fresh[entry.model] += not entry.choosy
        self._tenants[entry.tenant] += 1
        if self._tenants[entry.tenant] == 1:
            self._shares.arrive(entry.tenant)
        if entry.talk:
            self._talks.arrive((entry.tenant, entry.talk))
        self._before = None if self._order is None else (entry.request, self._order)
        alone = len(self._entries) == 1
        self._order = [entry] if alone else None

    def push_front(self, entry: Entry) -> None:
        """Put a request back at the head: it waited its turn, and was charged for it, before."""
        self.append(entry)
        self._back[entry.request] = None
        self._fresh[entry.model] -= not entry.choosy
        self._stir()

    def remove(self, request: RequestId) -> bool:
        """Take a request out, for whatever reason; False if it does not wait."""
        self._told.pop(request, None)
        entry = self._entries.pop(request, None)
        if entry is None:
            return False
        if request in self._back:
            del self._back[request]
        else:
            self._fresh[entry.model] -= not entry.choosy
        self._models[entry.model] -= 1
        self._tenants[entry.tenant] -= 1
        if not self._models[entry.model]:
            del self._models[entry.model], self._fresh[entry.model]
        if not self._tenants[entry.tenant]:
            del self._tenants[entry.tenant]
        before, self._before = self._before, None
        self._order = before[1] if before is not None and before[0] == request else None
        if not self._entries:
            self._order = []
        return True

    def served(self, request: RequestId) -> None:
        """A request gets its place: its tenant is charged, unless it was before."""
        entry = self._entries.get(request)
        if entry is not None and request not in self._back:
            self.charge(entry.tenant, entry.cost, entry.weight, entry.talk)
            if len(self._entries) > 1:
                self._pass(entry.class_, {one.class_ for one in self._entries.values()})
        self.remove(request)
        self._shares.tidy(self._tenants)
        self._talks.tidy(())

    def passed_by(self, tenant: TenantId, cost: float, weight: float, talk: bytes) -> None:
        """Somebody got a place without waiting, as nobody waits: charged all the same."""
        assert not self._entries, "nobody passes those who wait"
        self._shares.arrive(tenant)
        if talk:
            self._talks.arrive((tenant, talk))
            self._talks.tidy(())
        self.charge(tenant, cost, weight, talk)
        self._shares.tidy(())

    def charge(self, tenant: TenantId, cost: float, weight: float, talk: bytes) -> None:
        """Put a request on the account of its tenant, and of its conversation where they count."""
        self._before = None
        self._shares.serve(tenant, cost, weight)
        if talk:
            self._talks.serve((tenant, talk), cost, 1.0)

    def correct(self, tenant: TenantId, tokens: float, weight: float) -> None:
        """A request of this tenant took so many tokens more than it was charged for, or less."""
        self._shares.correct(tenant, tokens, weight)
        if len(self._entries) > 1:
            self._stir()

    def entries(self) -> tuple[Entry, ...]:
        """Everybody who waits, in order; a copy, so that they may be taken out meanwhile."""
        return tuple(self._ordered())

    def waits_for(self, model: ModelId) -> bool:
        """Whether anybody who is not choosy waits for this model for the first time."""
        return self._fresh[model] > 0

    def surplus(self, newcomer: RequestId) -> RequestId:
        """Who gives way where one is too many: the last of the tenant with the most by weight.

        That is the newcomer itself unless another tenant has more waiting than its own.
        """
        most = self._entries[newcomer]
        if len(self._tenants) == 1:
            return newcomer
        heaviest = self._tenants[most.tenant] / most.weight
        for entry in self._ordered():
            load = self._tenants[entry.tenant] / entry.weight
            if entry.request not in self._back and load > heaviest:
                most, heaviest = entry, load
        if most.tenant == self._entries[newcomer].tenant:
            return newcomer
        return [one for one in self._ordered() if one.tenant == most.tenant][-1].request

    def tell(self, request: RequestId) -> News:
        """The place of one request, which counts as told."""
        news = next(one for one in self._places() if one.request == request)
        self._told[request] = (news.position, news.length)
        return news

    def news(self) -> list[News]:
        """Everybody whose place, or the line's length, has changed since they were last told."""
        changed = [
            one
            for one in self._places()
            if self._told.get(one.request) != (one.position, one.length)
        ]
        self._told.update((one.request, (one.position, one.length)) for one in changed)
        return changed

    def places(self) -> list[tuple[Entry, News]]:
        """Everybody who waits, with their place."""
        return list(zip(self._ordered(), self._places(), strict=True))

    def by_model(self) -> dict[ModelId, int]:
        """How many wait for each model."""
        return dict(self._models)

    def _places(self) -> Iterable[News]:
        ahead: Counter[ModelId] = Counter()
        length = len(self._entries)
        for position, entry in enumerate(self._ordered(), start=1):
            yield News(entry.request, entry.model, position, length, ahead[entry.model])
            ahead[entry.model] += 1

    def _stir(self) -> None:
        self._order = self._before = None

    def _ordered(self) -> list[Entry]:
        if self._order is None:
            fresh = [one for one in self._entries.values() if one.request not in self._back]
            back = [self._entries[request] for request in reversed(self._back)]
            back.sort(key=lambda one: one.again)
            self._order = back + self._merged(fresh)
        return self._order

    def _merged(self, fresh: list[Entry]) -> list[Entry]:
        """All classes in one line, the better first, but for one place in so many."""
        lines = {
            class_: self._by_share([one for one in fresh if one.class_ == class_])[::-1]
            for class_ in CLASSES
        }
        passed, self._passed = self._passed, Counter(self._passed)
        order = []
        while any(lines.values()):
            waiting = [class_ for class_ in CLASSES if lines[class_]]
            due = [class_ for class_ in waiting if self._passed[class_] >= self._one_in - 1]
            chosen = due[-1] if due else waiting[0]
            order.append(lines[chosen].pop())
            self._pass(chosen, waiting)
        self._passed = passed
        return order

    def _pass(self, chosen: ServiceClass, waiting: Iterable[ServiceClass]) -> None:
        """Count how often each lower class that waits was passed over."""
        for class_ in waiting:
            self._passed[class_] += 1
        self._passed[chosen] = 0

    def _by_share(self, entries: list[Entry]) -> list[Entry]:
        tenants: dict[TenantId, list[Entry]] = defaultdict(list)
        for entry in entries:
            tenants[entry.tenant].append(entry)
        tagged: list[tuple[float, int, Entry]] = []
        for tenant, own in tenants.items():
            tag = self._shares.tag(tenant)
            for entry in self._by_talk(tenant, own):
                tagged.append((tag, len(tagged), entry))
                tag += entry.cost / entry.weight
        tagged.sort(key=lambda one: one[:2])
        return [entry for _, _, entry in tagged]

    def _by_talk(self, tenant: TenantId, entries: list[Entry]) -> list[Entry]:
        talks: dict[bytes, list[Entry]] = defaultdict(list)
        # Sorting keeps the order of arrival among equal deadlines.
        for entry in sorted(entries, key=lambda one: one.deadline_s):
            talks[entry.talk].append(entry)
        if len(talks) == 1:
            return next(iter(talks.values()))
        tagged: list[tuple[float, int, Entry]] = []
        for talk, own in talks.items():
            tag = self._talks.tag((tenant, talk))
            for entry in own:
                tagged.append((tag, len(tagged), entry))
                tag += entry.cost
        tagged.sort(key=lambda one: one[:2])
        return [entry for _, _, entry in tagged]
