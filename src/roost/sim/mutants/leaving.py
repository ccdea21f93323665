"""WIRING: machines that leave nodes, and gateways that start again, as they should not."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from roost.core.ids import ConversationKey, NodeId, RequestId
from roost.core.pin import Pin
from roost.core.snapshots import NodeStatus
from roost.fleet.conversations.effects import ConversationEffect
from roost.fleet.conversations.registry import Conversations
from roost.fleet.effects import Dispatch
from roost.fleet.nodes.handover import Emptied, Handover, HandoverEffect
from roost.node.agent import Agent
from roost.node.effects import Effect
from roost.sim.gateway.front import Front
from roost.sim.gateway.talks import Talks
from roost.sim.mutants import fittings
from roost.sim.mutants.fittings import Case
from roost.sim.play import Parts


class TellsTooEarly(Handover):
    """A node is told that nobody comes back before anybody has been moved."""

    def on_look(self, leaving: Collection[NodeId], now: float) -> list[HandoverEffect]:
        """Call every node empty, and move nobody."""
        return [Emptied(node) for node in leaving]


class MovesNobody(Handover):
    """Who is idle on a drained node stays there."""

    def on_look(self, leaving: Collection[NodeId], now: float) -> list[HandoverEffect]:
        """Look at nothing."""
        return []


class MovesQuietly(Handover):
    """Who was moved is not told of it."""

    def on_moved(self, job: RequestId, pin: Pin | None, now: float) -> list[ConversationEffect]:
        """Leave out why."""
        self._moving.pop(job)
        return self._conversations.on_ended(job, pin, now)


class TakesNoLock(Conversations):
    """Work in the background looks whether a conversation is idle, and then does not take it."""

    def on_work(self, key: ConversationKey, job: RequestId) -> bool:
        """Only look."""
        return key in self._idle


class KeepsEverything(Agent):
    """A node to which nobody comes back keeps what it has."""

    def on_vacate(self, link: int, vacant: bool, now: float) -> list[Effect]:  # noqa: FBT001
        """Hear nothing of it."""
        return self._finish(now)


class CountsWrong(Agent):
    """A node reports another number of cells than its engines have."""

    def status(self) -> NodeStatus:
        """Count a few more in every slot."""
        told = super().status()
        runtimes = tuple(
            msgspec.structs.replace(
                view,
                slots=tuple(
                    msgspec.structs.replace(slot, tokens=slot.tokens and slot.tokens + 4)
                    for slot in view.slots
                ),
            )
            for view in told.runtimes
        )
        return msgspec.structs.replace(told, runtimes=runtimes)


class ForgetsWords(Talks):
    """What was said is not in any store."""

    def inherit(self, before: Talks) -> None:
        """Begin anew."""


class ForgetsPins(Talks):
    """Where a conversation is, is in no store."""

    def repin(self, key: ConversationKey, pin: Pin) -> None:
        """Keep nothing."""


class IsAlwaysTheFirst(Front):
    """No start of a gateway is newer than another."""

    def boot(self) -> None:
        """Count no lives."""
        super().boot()
        self._lives = 1


class SendsElsewhere(Front):
    """A request is now and then sent to another node than was decided."""

    def _dispatch(self, effect: Dispatch) -> None:
        others = [node for node in self.links.lines if node != effect.node]
        if others and effect.epoch % 5 == 0:
            line = self.links.lines[effect.node]
            self.links.lines[effect.node] = self.links.lines[others[0]]
            super()._dispatch(effect)
            self.links.lines[effect.node] = line
        else:
            super()._dispatch(effect)


CASES: list[Case] = [
    (
        "node told too early",
        Parts(handover=TellsTooEarly),
        "handed_over",
        "drained_nodes_are_empty",
    ),
    (
        "nobody moved off a node",
        Parts(handover=MovesNobody),
        "handed_over",
        "drained_nodes_are_empty",
    ),
    ("moves untold", Parts(handover=MovesQuietly), "handed_over", "labels_are_true"),
    ("moves without lock", fittings.registry(TakesNoLock), "handed_over", "moves_take_turns"),
    (
        "vacant node keeps everything",
        fittings.agent(KeepsEverything),
        "handed_over",
        "drained_nodes_are_empty",
    ),
    ("cells miscounted", fittings.agent(CountsWrong), "calm", "cells_are_conserved"),
    (
        "words forgotten at a restart",
        fittings.talks(ForgetsWords),
        "gateway_killed",
        "conversations_never_fork",
    ),
    (
        "pins forgotten at a restart",
        fittings.talks(ForgetsPins),
        "gateway_killed",
        "second_turn_is_warm",
    ),
    (
        "generation not raised",
        fittings.front(IsAlwaysTheFirst),
        "gateway_killed",
        "owners_succeed",
    ),
    (
        "work sent elsewhere",
        fittings.front(SendsElsewhere),
        "calm",
        "work_is_where_it_was_sent",
    ),
]
