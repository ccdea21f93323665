"""MACHINE: how a simulated gateway leaves nodes: the production machine, and requests nobody reads.

A past is made shorter where that is due, and then computed elsewhere by a request for one token.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from roost.core.conversation import KeptConversation
from roost.core.ids import ConversationKey, NodeId, RequestId, TenantId
from roost.core.pin import Pin
from roost.core.request import ChatPrompt, GenerateRequest, Terms
from roost.fleet.choice.affinity import chain
from roost.fleet.conversations.compacting import past_of
from roost.fleet.conversations.effects import ConversationEffect
from roost.fleet.conversations.registry import Conversations
from roost.fleet.coordinator import Coordinator
from roost.fleet.nodes.handover import Emptied, Handover, HandoverSettings, Move
from roost.sim.compute import answer_of, prompt_tokens
from roost.sim.gateway.ledger import Ledger
from roost.sim.gateway.lines import Reader
from roost.sim.gateway.shortening import Secretary
from roost.sim.request_facts import Trace
from roost.sim.world import Action, Process

MakeHandover = Callable[
    [HandoverSettings, Conversations, Callable[[], RequestId]],
    Handover,
]


class Shop(Protocol):
    """The conversations, as whoever moves them needs them."""

    registry: Conversations

    def past(self, job: RequestId, key: ConversationKey, pin: Pin, done: Done) -> bool:
        """Give a past to `done` once it is as short as it has to be; False where there is none."""
        ...

    def repin(self, key: ConversationKey, pin: Pin) -> None:
        """Note where a conversation is now."""
        ...

    def worked(self, effects: list[ConversationEffect]) -> None:
        """Turns that have waited for this may begin."""
        ...


class Office(Protocol):
    """The gateway, as whoever empties nodes needs it."""

    @property
    def coordinator(self) -> Coordinator:
        """Who knows the nodes."""
        ...

    def ask(
        self, request: GenerateRequest, terms: Terms, reader: Reader, *, streamed: bool
    ) -> None:
        """A request has been received."""
        ...

    def handed_over(self, node: NodeId) -> None:
        """Nobody comes back to what this node holds."""
        ...


Done = Callable[[TenantId, KeptConversation], None]


class Handovers:
    """Empties the nodes of one life of a gateway that are being left."""

    def __init__(
        self, process: Process, make: MakeHandover, shop: Shop, ledger: Ledger, office: Office
    ) -> None:
        self._process = process
        self._settings = HandoverSettings()
        self._machine = make(self._settings, shop.registry, self._name)
        self._shop = shop
        self._ledger = ledger
        self._office = office
        self._moves: dict[RequestId, Move] = {}
        self._count = 0
        process.after(self._settings.look_s, self._tick)

    def _name(self) -> RequestId:
        self._count += 1
        return RequestId(f"{self._process.name} moves {self._count}")

    def _tick(self) -> None:
        self._process.after(self._settings.look_s, self._tick)
        self._look()

    def _look(self) -> None:
        now = self._process.world.now
        for effect in self._machine.on_look(self._office.coordinator.leaving(), now):
            if isinstance(effect, Emptied):
                self._office.handed_over(effect.node)
            elif not self._shop.past(effect.job, effect.key, effect.pin, partial(self._go, effect)):
                self._shop.worked(self._machine.on_nothing_kept(effect.job, now))

    def _go(self, move: Move, tenant: TenantId, kept: KeptConversation) -> None:
        """Have it computed wherever there is room."""
        messages = past_of(kept)
        request = GenerateRequest(move.pin.model, ChatPrompt(messages), max_tokens=1)
        trace = Trace(
            *(move.job, request.model, 1, self._process.world.now, tuple(answer_of(request)))
        )
        trace.tenant, trace.class_, trace.streamed = tenant, "bulk", False
        trace.came_s, trace.prompt_tokens = trace.arrived_s, len(prompt_tokens(request))
        trace.own, trace.moves = True, move.key
        self._ledger.arrived(trace)
        self._moves[move.job] = move
        terms = Terms(
            move.job,
            tenant,
            chain(tenant, request.model, messages),
            timeout_s=self._settings.wait_s,
            prompt_bytes=sum(len(message.content) for message in messages),
            max_tokens=1,
            class_="bulk",
        )
        reader = Secretary(self._process, lambda _: None)
        self._office.ask(request, terms, reader, streamed=False)

    def over(self, request: RequestId, pin: Pin | None) -> Action | None:
        """A request has ended; returns what is to be done when its place is free, if it was one."""
        move = self._moves.pop(request, None)
        if move is None:
            return None
        if pin is not None and self._ledger.completed(request):
            pin = Pin(pin.node, pin.model, min(move.pin.tokens, pin.tokens))
            self._shop.repin(move.key, pin)
            self._ledger.moved(move.key, request)
        else:
            pin = None
        return partial(self._ended, request, pin)

    def _ended(self, job: RequestId, pin: Pin | None) -> None:
        self._shop.worked(self._machine.on_moved(job, pin, self._process.world.now))
        self._look()
