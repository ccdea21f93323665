"""MACHINE: clients that want vectors of texts, or documents scored: each asks once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from roost.core.engine import Mode
from roost.core.ids import ModelId, TenantId
from roost.core.request import EmbedPrompt, GenerateRequest, RankPrompt, Terms
from roost.sim import vectors
from roost.sim.request_facts import Trace
from roost.sim.traffic import asking
from roost.sim.traffic.asking import Asked
from roost.sim.traffic.clients import Manners
from roost.sim.world import World

if TYPE_CHECKING:
    from random import Random


class Sender(asking.Sender, Protocol):
    """What such a client needs of the workload."""

    def texts(self, dice: Random) -> tuple[str, ...]:
        """Some texts."""
        ...


class Listing:
    """One of them."""

    def __init__(
        self, sender: Sender, world: World, dice: Random, tenant: TenantId, of: tuple[str, Mode]
    ) -> None:
        self._sender = sender
        self._world = world
        self._dice = dice
        self._tenant = tenant
        self._model, self._mode = of

    def next(self, manners: Manners) -> None:
        """Ask."""
        texts = self._sender.texts(self._dice)
        embeds = self._mode == "embed"
        prompt = EmbedPrompt(texts) if embeds else RankPrompt(texts[0], texts[1:] or texts)
        request = GenerateRequest(ModelId(self._model), prompt)
        name = self._sender.new_id()
        trace = Trace(name, request.model, 1, self._world.now, vectors.oracle_of(request))
        trace.mode, trace.streamed, trace.tenant = self._mode, False, self._tenant
        trace.prompt_tokens = sum(map(len, vectors.inputs_of(request)))
        size = sum(map(len, texts))
        terms = Terms(name, self._tenant, timeout_s=manners.timeout_s, prompt_bytes=size)
        manners = msgspec.structs.replace(manners, streamed=False, replays=False)
        self._sender.put(Asked(trace, request, terms, (), manners))
