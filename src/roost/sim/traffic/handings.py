"""MACHINE: clients that have a prompt computed ahead, and ask for its answer later."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from roost.core.ids import ModelId, TenantId
from roost.core.request import ChatPrompt, GenerateRequest, Message, Prompt, Terms, TextPrompt
from roost.fleet.choice.affinity import chain
from roost.sim.compute import answer_of, prompt_tokens
from roost.sim.gateway.front import Front
from roost.sim.gateway.lines import Reader
from roost.sim.request_facts import Trace
from roost.sim.scenario import Traffic
from roost.sim.traffic import asking
from roost.sim.traffic.asking import Asked
from roost.sim.traffic.clients import Manners
from roost.sim.world import World

if TYPE_CHECKING:
    from random import Random


STRANGER = TenantId("key:stranger")


class Plan(msgspec.Struct, frozen=True):
    """What one client is going to do: ask for the answer so often, each time after a while.

    Each try is by its own tenant or by a stranger who has got hold of the secret.
    """

    tenant: TenantId
    model: ModelId
    words: str
    chats: bool
    tries: tuple[tuple[float, TenantId], ...]

    @property
    def prompt(self) -> Prompt:
        """What is computed ahead."""
        return ChatPrompt(self.messages) if self.chats else TextPrompt(self.words)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The same as a chat."""
        return (Message("user", self.words),)


def plan(traffic: Traffic, dice: Random, tenant: TenantId, model: str, words: str) -> Plan:
    """Draw what one client is going to do with these words."""
    tries = []
    for _ in range(dice.randint(*traffic.tries)):
        who = STRANGER if dice.random() < traffic.strangers else tenant
        tries.append((dice.uniform(*traffic.answer_s), who))
    return Plan(tenant, ModelId(model), words, dice.random() < 0.5, tuple(tries))


class Sender(asking.Sender, Protocol):
    """What such a client needs of the workload."""

    thinking: int

    def most(self, dice: Random) -> int:
        """How long an answer may become."""
        ...

    def manners(self, dice: Random) -> Manners:
        """Draw how a client behaves."""
        ...


class Handing:
    """One of them."""

    def __init__(
        self, sender: Sender, world: World, front: Front, dice: Random, plan: Plan
    ) -> None:
        self._sender = sender
        self._world = world
        self._front = front
        self._dice = dice
        self._plan = plan
        self._secret = ""

    def next(self, manners: Manners) -> None:
        """Have it computed."""
        request, terms, trace = self._asked(self._plan.tenant, 1, manners)

        def enter(reader: Reader) -> None:
            self._front.handoffs.prefill(request, terms, reader, self._told)

        self._put(Asked(trace, request, terms, (), manners, partial(self._over, trace), enter))

    def _told(self, secret: str) -> None:
        self._secret = secret

    def _over(self, trace: Trace) -> None:
        """It is computed, if that went well, and whoever has read so far has the secret."""
        if not self._secret or not any(kind == "complete" for kind, _ in trace.endings):
            return
        for after_s, tenant in self._plan.tries:
            self._sender.thinking += 1
            self._world.at(after_s, partial(self._decode, tenant, trace))

    def _decode(self, tenant: TenantId, computed: Trace) -> None:
        self._sender.thinking -= 1
        manners = self._sender.manners(self._dice)
        request, terms, trace = self._asked(tenant, self._sender.most(self._dice), manners)
        trace.turn, trace.previous = 2, computed.request

        def enter(reader: Reader) -> None:
            self._front.handoffs.decode(self._secret, request, terms, reader)

        self._put(Asked(trace, request, terms, (), manners, enter=enter))

    def _asked(
        self, tenant: TenantId, most: int, manners: Manners
    ) -> tuple[GenerateRequest, Terms, Trace]:
        plan, name = self._plan, self._sender.new_id()
        request = GenerateRequest(plan.model, plan.prompt, max_tokens=most)
        terms = Terms(
            name,
            tenant,
            chain(tenant, plan.model, plan.messages) if plan.chats else (),
            timeout_s=manners.timeout_s,
            prompt_bytes=len(plan.words),
            max_tokens=most,
        )
        trace = Trace(name, plan.model, 1, self._world.now, tuple(answer_of(request)))
        trace.tenant, trace.streamed = tenant, False
        trace.prompt_tokens = len(prompt_tokens(request))
        return request, terms, trace

    def _put(self, asked: Asked) -> None:
        manners = msgspec.structs.replace(asked.manners, streamed=False, replays=False)
        self._sender.put(msgspec.structs.replace(asked, manners=manners))
