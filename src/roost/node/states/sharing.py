"""MACHINE: who computes a beginning that others wait for, and how long they do.

    (in line) ──hold──▶ held ──▶ (in line)    its leader is through, or gone, or it took too long

Every stream that computes its prompt can lead. One whose prompt begins the same is held while it
would otherwise compute the same tokens beside its leader, at the same machine's expense: waiting
costs it nothing but the moves that follow. It keeps its place in the line, and others pass it.

Nobody is held for ever: a leader ends in one way or another, a stream is held for `wait_s` in all,
however many leaders it has had, and once that is over it computes for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from roost.node.effects import StreamKey
from roost.node.slots import common_tokens
from roost.node.states.sessions import Sessions
from roost.node.stream import Stream


@dataclass(slots=True)
class Lead:
    """A stream that has a slot, the tokens of its prompt (see `slots.pack`), and who follows it.

    `copies` says that its slot can be copied once its prompt is in there, `is_computed` that it is,
    and no copy is on its way. `is_wanted` asks for one even if nobody follows, for others to come:
    it is not the first that has had to compute this.
    """

    stream: Stream
    wanted: bytes
    copies: bool
    is_wanted: bool = False
    is_computed: bool = False
    followers: dict[StreamKey, int] = field(default_factory=dict)

    @property
    def spared(self) -> int:
        """Tokens that its followers would not have to compute."""
        return sum(self.followers.values())


class Sharing:
    """The leaders and followers of one runtime; the limits are those of `sessions`, as they are.

    `is_off` for good once the model was seen not to go back to a beginning.
    """

    def __init__(self, sessions: Sessions) -> None:
        self.is_off = False
        self._sessions = sessions
        self._leads: dict[StreamKey, Lead] = {}
        self._held: dict[StreamKey, StreamKey] = {}
        self._until: dict[StreamKey, float] = {}
        self._hopes: dict[StreamKey, int] = {}

    def __contains__(self, stream: Stream) -> bool:
        """Whether this stream is held."""
        return stream.key in self._held

    @property
    def copies(self) -> bool:
        """Whether what somebody else has computed is of use, and anybody waits for it."""
        return not self.is_off and self._sessions.settings.shared_wait_s > 0

    def lead(self, lead: Lead) -> None:
        """A stream is given a slot."""
        self._until.pop(lead.stream.key, None)
        self._leads[lead.stream.key] = lead

    def runs(self, stream: Stream, hoped: int) -> None:
        """It runs, and hopes to find so many tokens of its prompt in its slot."""
        self._hopes[stream.key] = hoped

    def on_started(self, stream: Stream, cached: int) -> None:
        """It has found so many tokens; if far fewer than hoped, nobody waits for any from now on.

        Not every model can go back to the beginning of what a slot holds.
        """
        hoped = self._hopes.pop(stream.key, 0)
        if hoped >= self._sessions.settings.shared_tokens_min and 2 * cached < hoped:
            self.is_off = True
            for lead in self._leads.values():
                self.let_go(lead.stream)

    def lead_of(self, stream: Stream) -> Lead:
        """What this stream, which has a slot, computes for others."""
        return self._leads[stream.key]

    def find(self, stream: Stream, wanted: bytes) -> tuple[Lead, int] | None:
        """The leader of the same tenant to wait for, with the longest common beginning, in tokens.

        Where slots are copied it is too late once that has been done, or was not asked for.
        """
        return self._longest(stream, wanted, lambda lead: not (lead.copies and lead.is_computed))

    def missed(self, stream: Stream, wanted: bytes) -> int:
        """How many tokens of a prompt another one has computed, too early for this one."""
        found = self._longest(stream, wanted, lambda lead: lead.copies and lead.is_computed)
        return found[1] if found is not None else 0

    def hold(self, stream: Stream, lead: Lead, spared: int, patience_s: float, now: float) -> bool:
        """Let a stream wait for a leader, who spares it so many tokens; False if it has waited."""
        patience_s = min(patience_s, self._sessions.settings.shared_wait_s)
        if now >= self._until.setdefault(stream.key, now + patience_s):
            return False
        self._held[stream.key] = lead.stream.key
        lead.followers[stream.key] = spared
        return True

    def let_go(self, stream: Stream, *, alone: bool = False) -> None:
        """Whoever follows this one goes on, with another leader or, if `alone`, without any."""
        lead = self._leads.get(stream.key)
        for follower in lead.followers if lead is not None else ():
            del self._held[follower]
            if alone:
                self._until[follower] = 0.0
        if lead is not None:
            lead.followers = {}

    def quit(self, stream: Stream) -> None:
        """This one needs no slot any more."""
        self._until.pop(stream.key, None)
        leader = self._held.pop(stream.key, None)
        if leader is not None:
            del self._leads[leader].followers[stream.key]

    def on_closed(self, stream: Stream) -> None:
        """This one has left its slot."""
        self.let_go(stream)
        self._leads.pop(stream.key, None)
        self._hopes.pop(stream.key, None)

    def expire(self, now: float) -> None:
        """Let those go who have waited for long enough."""
        for follower, leader in list(self._held.items()):
            if now >= self._until[follower]:
                del self._held[follower]
                del self._leads[leader].followers[follower]

    def next_tick(self) -> float | None:
        """When the next one will have waited for long enough."""
        return min((self._until[follower] for follower in self._held), default=None)

    def _longest(
        self, stream: Stream, wanted: bytes, fits: Callable[[Lead], bool]
    ) -> tuple[Lead, int] | None:
        best: Lead | None = None
        most = 0
        for lead in self._leads.values() if self.copies else ():
            if lead.stream.tenant == stream.tenant and fits(lead):
                shared = common_tokens(lead.wanted, wanted)
                if shared > most:
                    best, most = lead, shared
        return (best, most) if best is not None else None
