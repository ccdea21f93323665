"""MACHINE: where one end of a link stands; the same for both, which differ in their tables.

    greeting ──the peer's greeting──▶ up ──Goodbye, illegal, silence──▶ closed

It judges what every message is judged by (may it come now, has the peer gone silent) and answers
what every peer is answered alike: pings and goodbyes. What a message means is for its end to say.
"""

from __future__ import annotations

from typing import TypeAlias

from roost.errors import Failure
from roost.wire import judge
from roost.wire.heartbeat import Heartbeat, LinkSettings
from roost.wire.link_tables import Close, EndState, Send, Side
from roost.wire.messages import FromGateway, FromNode, Goodbye, Ping, Pong

Alike: TypeAlias = list[Send[Ping | Pong] | Close]
"""What either end may ask for."""

_ALIKE = (Ping, Pong, Goodbye)


class Standing:
    """State of an end, and its sense of the other's life."""

    def __init__(self, side: Side, settings: LinkSettings, now: float) -> None:
        self.state: EndState = "greeting"
        self._side = side
        self._settings = settings
        self._heartbeat = Heartbeat(settings, now)
        self._greeted_by = now + settings.greeting_s

    @property
    def rtt_s(self) -> float | None:
        """The round trip of the last ping that was answered."""
        return self._heartbeat.rtt_s

    def heard_age_s(self, now: float) -> float:
        """Seconds since anything was heard."""
        return self._heartbeat.heard_age_s(now)

    def start(self, ping_s: float, now: float) -> None:
        """Both have greeted: ping every `ping_s` seconds from `now` on."""
        self._heartbeat.start(ping_s, now)

    def complaint(self, message: FromGateway | FromNode, now: float) -> str | None:
        """Why this may not be heard now, or None; an answer to a ping is taken."""
        if (self.state, type(message)) not in self._side.hears:
            return f"sent {type(message).__name__} on a link that is {self.state}"
        if isinstance(message, Pong) and not self._heartbeat.on_pong(message.seq, now):
            return "answered a ping that was not sent"
        return None

    def heard(self, message: FromGateway | FromNode, now: float) -> Alike | None:
        """Take a message that is legal; None where it is for the end to say what follows."""
        self._heartbeat.on_heard(now)
        self.state = self._side.hears[self.state, type(message)]
        if not isinstance(message, _ALIKE):
            return None
        match message:
            case Ping():
                return [Send(Pong(message.seq))]
            case Pong():
                return []
            case Goodbye():
                return [Close(message.failure, again=message.again)]
        return None

    def say(self, message: FromGateway | FromNode) -> None:
        """Our side says this; what it may not say now is a defect of ours."""
        following = self._side.says.get((self.state, type(message)))
        assert following is not None, f"{type(message).__name__} said while {self.state}"
        self.state = following

    def on_tick(self, now: float) -> Alike:
        """Time has passed: notice silence, send a ping when one is due."""
        if self.state == "closed":
            return []
        self._forgive_own_sleep(now)
        failure = self._silence(now)
        if failure is not None:
            return self.close(failure)
        ping = self._heartbeat.due_ping(now) if self.state == "up" else None
        return [Send(ping)] if ping else []

    def next_tick(self) -> float | None:
        """When `on_tick` has something to do; None once closed."""
        if self.state == "closed":
            return None
        return self._greeted_by if self.state == "greeting" else self._heartbeat.next_tick()

    def breach(self, complaint: str) -> Alike:
        """The peer broke the protocol: that is the end."""
        return self.close(judge.broken(self._side.peer, complaint))

    def close(self, failure: Failure, *, again: bool = True) -> Alike:
        """Nothing is heard or said any more."""
        self.state = "closed"
        return [Close(failure, again=again)]

    def _forgive_own_sleep(self, now: float) -> None:
        if self.state == "up":
            self._heartbeat.forgive_own_sleep(now)
        elif now - self._greeted_by > self._settings.stall_s:
            # The greeting was slept through, and may lie unread.
            self._greeted_by = now + self._settings.stall_s

    def _silence(self, now: float) -> Failure | None:
        peer, heartbeat = self._side.peer, self._heartbeat
        if self.state == "greeting":
            late = now >= self._greeted_by
            text = f"the {peer} did not complete the greeting in time"
            return Failure("node_lost", text) if late else None
        if heartbeat.is_dead(now):
            age_s = heartbeat.heard_age_s(now)
            return Failure("node_lost", f"nothing was heard from the {peer} for {age_s:.1f} s")
        return None
