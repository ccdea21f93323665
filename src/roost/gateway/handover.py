"""SHELL: hands over the conversations of nodes that are being left, by having them computed anew.

What was said goes to another node as a request that nobody reads: one token is asked for and thrown
away, and the prompt before it stays in that node's KV, where the next turn finds it. A past that is
due to become shorter does so on the way, since its KV has to be computed again in any case.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from roost.core.pin import Pin
from roost.core.request import ChatPrompt, GenerateRequest, Terms
from roost.fleet.choice.affinity import chain
from roost.fleet.conversations.compacting import past_of
from roost.fleet.conversations.compaction import Asked
from roost.fleet.nodes.handover import Emptied, Handover, HandoverSettings, Move
from roost.fleet.streams.relay import Relay, RelaySettings
from roost.gateway.request_ids import RequestIds
from roost.gateway.turns.turn import Turn

if TYPE_CHECKING:
    from roost.core.conversation import KeptConversation
    from roost.core.ids import RequestId, TenantId
    from roost.errors import Failure
    from roost.fleet.streams.relay_effects import RelayEffect
    from roost.gateway.conversations.archive import Archive
    from roost.gateway.conversations.compactor import Compactor
    from roost.gateway.conversations.infer import Infer
    from roost.gateway.mind import Mind

DIALECT = "handover"
RELEASE_WAIT_S = 1.0
"""How long a conversation waits for the place that moving it took."""


class Nobody:
    """Reads answers that nobody wants."""

    @property
    def blocked(self) -> bool:
        """It takes everything at once."""
        return False

    def carry_out(self, turn: Turn, effect: RelayEffect) -> None:
        """Write nothing anywhere."""


class Handovers:
    """Empties nodes that are being left; `close` stops the clock."""

    def __init__(
        self,
        mind: Mind,
        archive: Archive,
        infer: Infer,
        compactor: Compactor,
        settings: HandoverSettings,
    ) -> None:
        self._mind = mind
        self._archive = archive
        self._infer = infer
        self._compactor = compactor
        self._settings = settings
        self._machine = Handover(settings, infer.conversations, RequestIds())
        self._loop = asyncio.get_running_loop()
        self._moves: dict[RequestId, Move] = {}
        self._timer = self._loop.call_later(settings.look_s, self._tick)

    def close(self) -> None:
        """Begin nothing more."""
        self._timer.cancel()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._settings.look_s, self._tick)
        self._look()

    def _look(self) -> None:
        leaving = self._mind.coordinator.leaving()
        for effect in self._machine.on_look(leaving, self._mind.now_s):
            match effect:
                case Move():
                    self._archive.recall_whole(effect.key, partial(self._begin, effect))
                case Emptied(node):
                    self._mind.handed_over(node)

    def _begin(self, move: Move, whole: tuple[TenantId, KeptConversation] | Failure | None) -> None:
        if not isinstance(whole, tuple) or not whole[1].turns:
            self._count("nothing_kept")
            self._not_moved(move, "nothing_kept")
            self._ended(move.job, None, kept=False)
            return
        tenant, kept = whole
        model = move.pin.model
        asked = Asked(move.key, tenant, model, kept, ctx=self._compactor.ctx(model))
        self._compactor.work(move.job, asked, "worker_drain", partial(self._send, move, tenant))

    def _send(self, move: Move, tenant: TenantId, kept: KeptConversation | None) -> None:
        assert kept is not None, "nobody refuses work in the background"
        prompt, model = ChatPrompt(past_of(kept)), move.pin.model
        terms = Terms(
            move.job,
            tenant,
            chain(tenant, model, prompt.messages),
            timeout_s=self._settings.wait_s,
            prompt_bytes=sum(len(message.content.encode()) for message in prompt.messages),
            max_tokens=1,
            class_="bulk",
            needs="plain_turns",
        )
        request = GenerateRequest(model, prompt, max_tokens=1)
        relay = Relay(RelaySettings(), streamed=False, now=self._mind.now_s)
        turn = Turn(request, terms, relay, Nobody(), DIALECT)
        turn.keeper = self
        self._moves[move.job] = move
        self._mind.arrive(turn)

    # --- from turns

    def over(self, turn: Turn) -> None:
        """A conversation is elsewhere, or it is not."""
        move, pin = self._moves.pop(turn.terms.request_id), None
        if turn.relay.outcome == "complete" and turn.dispatch is not None:
            computed = turn.spent.prompt_tokens
            tokens = min(move.pin.tokens or computed, computed)
            pin = Pin(turn.dispatch.node, turn.request.model, tokens)
            self._archive.repin(move.key, pin)
            session = self._infer.label(move.key)
            self._mind.log.debug(
                "conversation_moved", session=session, node=move.pin.node, to=pin.node
            )
        else:
            ended = turn.ended_by
            why = str(turn.relay.outcome) if ended is None else ended.reason
            self._not_moved(move, why)
        self._count("failed" if pin is None else "moved")
        # The next turn would find the place taken that holds its own KV.
        self._mind.when_free(turn, RELEASE_WAIT_S, partial(self._ended, move.job, pin))

    def _ended(self, job: RequestId, pin: Pin | None, *, kept: bool = True) -> None:
        now = self._mind.now_s
        if kept:
            effects = self._machine.on_moved(job, pin, now)
        else:
            effects = self._machine.on_nothing_kept(job, now)
        self._infer.on_worked(effects)
        self._look()

    def _not_moved(self, move: Move, why: str) -> None:
        session = self._infer.label(move.key)
        self._mind.log.info(
            "conversation_not_moved", session=session, node=move.pin.node, reason=why
        )

    def _count(self, outcome: str) -> None:
        self._mind.metrics("roost_handovers_total", outcome).inc()
