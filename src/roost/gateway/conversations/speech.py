"""SHELL: one turn of a named conversation on its way through the gateway."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from roost.core.conversation import KeptConversation, SaidTurn
from roost.core.pin import REWRITTEN, Pin
from roost.fleet.conversations import compacting

if TYPE_CHECKING:
    import asyncio

    from roost.core.ids import ConversationKey
    from roost.dialects.system1.infer import InferAsked
    from roost.errors import Failure
    from roost.gateway.reading.session_token import Session
    from roost.gateway.turns.turn import Turn


class Speech:
    """What a turn asks, and what was said before it once that is known.

    `session` is what its token says, `timer` its client's own time while no coordinator keeps that.
    `refusal` is what a node has said of its length. `forgotten` is set where it went on from a
    shorter past that could not be noted: the next turn has the whole one again.
    """

    def __init__(
        self,
        key: ConversationKey,
        asked: InferAsked,
        turn: Turn,
        now: float,
        session: Session | None,
    ) -> None:
        self.key = key
        self.asked = asked
        self.turn = turn
        self.arrived_s = now
        self.timeout_s = turn.terms.timeout_s
        self.session = session
        self.past: KeptConversation | None = None
        self.refusal: Failure | None = None
        self.kept = False
        self.forgotten = False
        self.timer: asyncio.TimerHandle | None = None

    @property
    def text(self) -> str:
        """What the client says in this turn."""
        return self.asked.text

    @property
    def pin(self) -> Pin | None:
        """Where its KV is now; None where the turn has not run."""
        turn = self.turn
        if turn.dispatch is None or turn.started is None:
            return None
        node, model = turn.dispatch.node, turn.request.model
        if self.forgotten:
            # Nobody goes on from what is there.
            return Pin(node, model, moved=REWRITTEN)
        tokens = turn.spent.prompt_tokens + turn.spent.completion_tokens
        return Pin(node, model, tokens)

    def said(self, *, complete: bool) -> SaidTurn | None:
        """Put down what the client asked and got; None where it got nothing."""
        answered, pin = "".join(self.turn.reached or ()), self.pin
        if not answered or pin is None:
            return None
        tenant, name = self.turn.terms.tenant, self.asked.conversation
        return SaidTurn(*(self.key, tenant, name, pin, self.text, answered, complete), time.time())

    def too_long_alone(self, ctx: int) -> bool:
        """Whether this turn would not fit `ctx` tokens without its past either, by its bytes."""
        if self.past is None or not self.past.turns:
            return True
        return compacting.rate_of(self.past).per_byte * len(self.text.encode()) >= ctx
