"""MACHINE: a simulated gateway: the production coordinator, relays and link ends, without sockets.

It does for them what the gateway's shell does: one function per effect, and every event to whom it
belongs. What it sees on the way it notes in the history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from roost.core.events import Delta, Failed, Finished, Started, StreamEvent
from roost.core.fence import Epoch, Fence
from roost.core.ids import ConversationKey, NodeId, RequestId, StreamId
from roost.core.request import Continuation, GenerateRequest, Terms, mode_for
from roost.core.snapshots import NodeStatus
from roost.errors import Failure
from roost.fleet.choice.abilities import Abilities
from roost.fleet.effects import (
    Answer,
    Disconnect,
    Dispatch,
    Effect,
    Report,
    Vacate,
    Waiting,
    Want,
    Withdraw,
)
from roost.fleet.streams.said import Said
from roost.sim.gateway.bookings import Bookings
from roost.sim.gateway.handoffs import Desk
from roost.sim.gateway.handovers import Handovers
from roost.sim.gateway.ledger import Ledger
from roost.sim.gateway.lines import Line, Reader, Turn, line_of, wish_of
from roost.sim.gateway.parts import FrontParts
from roost.sim.gateway.patience import Patience
from roost.sim.gateway.readers import Readers
from roost.sim.gateway.switchboard import AboutStream, Switchboard
from roost.sim.gateway.talks import Talks
from roost.sim.network import Connection, End
from roost.sim.world import Alarm, Process, World
from roost.wire.messages import (
    Cancel,
    Credit,
    Events,
    Hello,
    Open,
    Refused,
    Released,
    Status,
)
from roost.wire.messages import Vacate as Vacancy


class Front:
    """The gateway process."""

    def __init__(self, world: World, parts: FrontParts, ledger: Ledger) -> None:
        self._readers = Readers(world, ledger, self)
        self.turns = self._readers.turns
        self.tick_delay_s = 0.0
        self._parts = parts
        self._world = world
        self._ledger = ledger
        self._lives = 0
        self.accounts = Bookings(world, ledger.history, parts.allowances)
        self.boot()

    # The process.

    def boot(self) -> None:
        """Start, with what the store has kept of earlier lives and nothing else of them."""
        parts, before = self._parts, self.talks if self._lives else None
        self._lives += 1
        self.process = Process(self._world, f"gateway/{self._lives}")
        self.coordinator, self._abilities = parts.coordinator(), Abilities()
        self.links = Switchboard(self.process, self._ledger, self)
        self._alarm = Alarm(self.process, self._tick)
        self.talks: Talks = parts.talks(self.process, parts.talk_parts(), self._ledger, self)
        if before is not None:
            self.talks.inherit(before)
        self._due: deque[Effect] = deque()
        self._performing = False
        self._patience = Patience(self.process, self.coordinator)
        shop, ledger = self.talks, self._ledger
        self.handoffs = Desk(self.process, parts.handoffs(), ledger, self)
        self._handovers = Handovers(self.process, parts.handover, shop, ledger, self)

    def kill(self) -> None:
        """End it: whatever runs through it is lost, and its clients see their connections break."""
        self.process.kill()
        turns = list(self.turns.values())
        self.turns.clear()
        for turn in turns:
            self._ledger.ended(turn.terms.request_id, "gateway_lost", None)
        self._ledger.gateway_gone()
        self.accounts.begin_life()
        for turn in turns:
            turn.reader.ended()

    def answer(self, connection: Connection, node: End) -> End:
        """Take a new connection; the ear for what it brings."""
        return self.links.answer(connection, node)

    # Clients.

    def ask(
        self, request: GenerateRequest, terms: Terms, reader: Reader, *, streamed: bool
    ) -> None:
        """A client's request has been received."""
        limits = self._parts.relay_settings
        said = Said(limits.replay_max_tokens) if terms.on_loss == "replay" else None
        relay = self._parts.relay(limits, streamed, self._world.now, said)
        self._readers.expect(self.process, request, terms, reader, relay)
        if self._let_in(request, terms):
            self.admit(terms.request_id, request, terms, said)

    def say(
        self, key: ConversationKey, request: GenerateRequest, terms: Terms, reader: Reader
    ) -> None:
        """A turn of a named conversation has been received."""
        settings = msgspec.structs.replace(self._parts.relay_settings, sealed=True)
        streamed = True
        relay = self._parts.relay(settings, streamed, self._world.now, None)
        self._readers.expect(self.process, request, terms, reader, relay)
        if self._let_in(request, terms):
            self.talks.come(key, request, terms)

    def _let_in(self, request: GenerateRequest, terms: Terms) -> bool:
        """Reserve what it will take on its key's account, or refuse it."""
        refused = self.accounts.reserve(terms, request.model)
        if refused is not None:
            self.refuse(terms.request_id, refused)
        return refused is None

    def admit(
        self, request: RequestId, asked: GenerateRequest, terms: Terms, said: Said | None = None
    ) -> None:
        """What a request asks for is complete: let the coordinator decide about it."""
        turn = self.turns[request]
        judged = self._abilities.judge(asked)
        if judged.failure is not None:
            self.refuse(request, judged.failure)
            return
        mode = mode_for(asked.prompt)
        terms = msgspec.structs.replace(terms, unfit=judged.unfit, mode=mode)
        turn.request, turn.terms = asked, terms
        self._feed(self.coordinator.on_request(terms, asked.model, self._world.now, said))
        self._ledger.admitted()

    def refuse(self, request: RequestId, failure: Failure) -> None:
        """A turn is not served, and the coordinator has not heard of it."""
        turn = self.turns[request]
        self._readers.carry_out(turn, turn.relay.on_answer(failure, self._world.now))

    def when_free(self, request: RequestId, done: Callable[[], None]) -> None:
        """Call `done` when the place of a request's last attempt is free, or at once."""
        self._patience.wait(request, self.turns[request].attempt, done)

    def sealed(self, request: RequestId) -> None:
        """What was said in a turn is kept."""
        self._readers.sealed(request)

    def hang_up(self, request: RequestId) -> None:
        """The client's connection is seen to be gone."""
        self._readers.hang_up(request)

    def cancel(self, request: RequestId) -> None:
        """Somebody asks for a request to be stopped."""
        self._ledger.cancelled(request)
        self._feed(self.coordinator.on_cancel(request, None, self._world.now))

    def park(self, node: NodeId, *, parked: bool) -> None:
        """An operator wants a node to get no new work, or to get it again."""
        tell = self.coordinator.on_drain_node if parked else self.coordinator.on_undrain_node
        self._ledger.park(node, parked=parked)
        self._feed(tell(node, self._world.now))

    def note_drained(self, node: NodeId, status: NodeStatus) -> None:
        """A node that was drained is about to be given back: note how it stands."""
        left = len(self.talks.registry.on_node(node))
        self._ledger.drained(node, status, left)

    def handed_over(self, node: NodeId) -> None:
        """Nobody comes back to what a node holds."""
        self._feed(self.coordinator.on_handed_over(node))

    def drain(self) -> None:
        """Take nothing new."""
        self._feed(self.coordinator.on_drain(self._world.now))

    # What comes over the links.

    def on_heard(self, node: NodeId) -> None:
        """A node is alive."""
        self._feed(self.coordinator.on_node_heard(node, self._world.now))

    def on_joined(self, hello: Hello) -> None:
        """A node introduces itself."""
        now = self._world.now
        self._feed(self.coordinator.on_node_joined(hello.node, hello.name, hello.instance, now))

    def on_status(self, node: NodeId, message: Status) -> None:
        """A node reports."""
        now = self._world.now
        self._abilities.on_report(node, message.status)
        self._feed(self.coordinator.on_node_status(node, message.seq, message.status, now))

    def on_left(self, node: NodeId) -> None:
        """A node's line is gone."""
        self._abilities.on_left(node)
        self._feed(self.coordinator.on_node_left(node, self._world.now))

    def on_stream(self, line: Line, message: AboutStream) -> None:
        """A node speaks of a stream."""
        key = line.streams.get(message.stream)
        if key is None:
            return
        request, attempt = key
        now = self._world.now
        if isinstance(message, Released):
            del line.streams[message.stream], line.numbers[key]
            self._ledger.released(request, attempt)
            self._feed(self.coordinator.on_released(request, attempt, now))
        elif isinstance(message, Refused):
            self._ledger.over(request, attempt)
            self._ledger.failed(line.node, message.failure)
            if line.node is not None and message.failure.reason == "node_busy":
                self._ledger.refused(line.node)
            self._feed(self.coordinator.on_refused(request, attempt, message.failure, now))
        elif isinstance(message, Events):
            for event in message.events:
                if isinstance(event, Failed):
                    self._ledger.failed(line.node, event.failure)
            self._events(request, attempt, message.events)
        elif (turn := self._current(request, attempt)) is not None:
            self._readers.carry_out(turn, turn.relay.on_waiting(message.phase, now))

    def _current(self, request: RequestId, attempt: int) -> Turn | None:
        """The turn, if this attempt is the one whose events its client may see.

        A withdrawn attempt is over at once: what it still says must not reach the relay, which has
        to begin anew with the next one.
        """
        turn = self.turns.get(request)
        if turn is None or turn.dispatch is None or turn.withdrawn:
            return None
        return turn if turn.dispatch.attempt == attempt else None

    def _events(self, request: RequestId, attempt: int, events: Sequence[StreamEvent]) -> None:
        # The coordinator hears everything, also of attempts that are over, and has to tell them
        # apart by itself; the relay hears only of the current one.
        now = self._world.now
        turn = self._current(request, attempt)
        before = self._books() if turn is None else ()
        for event in events:
            self._note(turn, request, attempt, event)
        if turn is not None:
            self._readers.carry_out(turn, turn.relay.on_events(events, now))
            held = turn.relay.held_messages
            if held > self._parts.relay_settings.buffer_events:
                self._ledger.defect(f"{request} holds {held} messages for its reader")
        for event in events:
            if isinstance(event, Failed):
                self._ledger.over(request, attempt)
                self._feed(self.coordinator.on_failed(request, attempt, event.failure, now))
        if turn is None and self._books() != before:
            self._ledger.defect(f"{request}: late events of attempt {attempt} were believed")

    def _books(self) -> tuple[int, ...]:
        now = self.coordinator.statistics()
        return now.finished, now.retried, now.bounced, sum(now.answered.values())

    def _note(
        self, turn: Turn | None, request: RequestId, attempt: int, event: StreamEvent
    ) -> None:
        now = self._world.now
        if isinstance(event, Delta):
            first = turn is None or not turn.spoke
            if turn is not None:
                turn.spoke = True
                turn.answer.append(event.text)
                self._ledger.heard_tokens(request, event.tokens)
                turn.spent += event.tokens
            if first:
                self._ledger.spoke(request, attempt)
                self._feed(self.coordinator.on_first_token(request, attempt, now))
        elif isinstance(event, Started):
            if turn is not None:
                self._ledger.started(request, event)
                turn.spent = event.prompt_tokens
            self._feed(self.coordinator.on_started(request, attempt, event, now))
        elif isinstance(event, Finished):
            text = "".join(turn.answer) if turn is not None else ""
            self._ledger.over(request, attempt)
            self._feed(self.coordinator.on_finished(request, attempt, event, text, now))

    # The coordinator's effects.

    def _tick(self) -> None:
        if self.tick_delay_s:
            self.process.after(self.tick_delay_s, self._tick_now)
        else:
            self._tick_now()

    def _tick_now(self) -> None:
        self._feed(self.coordinator.on_tick(self._world.now))

    def _feed(self, effects: list[Effect]) -> None:
        # Effects of an event that performing brings about come after those that are due already.
        self._due.extend(effects)
        if self._performing:
            return
        self._performing = True
        while self._due:
            self._perform(self._due.popleft())
        self._performing = False
        self._patience.look()
        self._ledger.look()
        now = self._world.now
        self._alarm.set(now + self.coordinator.next_tick(now))

    def _perform(self, effect: Effect) -> None:
        self._world.log(line_of(effect))
        match effect:
            case Dispatch():
                self._dispatch(effect)
            case Withdraw():
                self._withdraw(effect)
            case Answer():
                turn = self.turns.get(effect.request)
                if turn is not None and not self.talks.rescued(effect.request, effect.failure):
                    if effect.failure.reason == "node_lost":
                        self._ledger.lost(effect.request)
                    self._readers.carry_out(
                        turn, turn.relay.on_answer(effect.failure, self._world.now)
                    )
            case Waiting():
                turn = self.turns.get(effect.request)
                if turn is not None:
                    text = f"queued {effect.position}/{effect.length}"
                    self._readers.carry_out(turn, turn.relay.on_waiting(text, self._world.now))
            case Disconnect():
                self.links.disconnect(effect.node, effect.failure)
            case Want():
                self._ledger.wanted(effect.node, effect.model)
                self.links.say(self.links.lines[effect.node], wish_of(effect))
            case Vacate():
                left = len(self.talks.registry.on_node(effect.node))
                self._ledger.vacated(effect.node, left, vacant=effect.vacant)
                self.links.say(self.links.lines[effect.node], Vacancy(effect.vacant))
            case Report():
                self._ledger.note(effect)

    def _dispatch(self, effect: Dispatch) -> None:
        turn, line = self.turns[effect.request], self.links.lines[effect.node]
        again = turn.dispatch is not None
        turn.dispatch, turn.withdrawn, turn.spoke = effect, False, False
        asked = turn.request
        if effect.resumes_at and turn.relay.said is not None:
            begun = Continuation(turn.relay.said.ids, effect.digest)
            asked = msgspec.structs.replace(asked, continuation=begun)
        else:
            turn.answer.clear()
        if again:
            self._readers.carry_out(turn, turn.relay.on_restart(effect.lost_to, self._world.now))
        stream = StreamId(line.opened)
        line.opened += 1
        line.streams[stream] = (effect.request, effect.attempt)
        line.numbers[effect.request, effect.attempt] = stream
        self._ledger.dispatched(effect, turn.request.model, self._lives)
        message = Open(
            stream,
            effect.request,
            turn.terms.sharer,
            asked,
            turn.relay.room,
            effect.deadline_s,
            Fence(effect.request, Epoch(self._lives, effect.epoch, "sim")),
        )
        self.links.say(line, message)

    def _withdraw(self, effect: Withdraw) -> None:
        turn = self._current(effect.request, effect.attempt)
        if turn is not None:
            turn.withdrawn = True
            self._ledger.lost(effect.request)
        line = self.links.lines.get(effect.node)
        stream = line.numbers.get((effect.request, effect.attempt)) if line is not None else None
        if line is not None and stream is not None:
            self.links.say(line, Cancel(stream))

    # What relays want of others than their clients.

    def grant(self, turn: Turn, messages: int) -> None:
        """There is room for so many more messages of its node."""
        dispatch = turn.dispatch
        line = self.links.lines.get(dispatch.node) if dispatch is not None else None
        if line is None or dispatch is None:
            return
        stream = line.numbers.get((dispatch.request, dispatch.attempt))
        if stream is not None:
            self.links.say(line, Credit(stream, messages))

    def keep(self, turn: Turn) -> None:
        """Its client has everything but the end."""
        self.talks.keep(turn.terms.request_id, turn.reached, turn.pin)

    def over(self, turn: Turn) -> None:
        """A request has ended for its client."""
        request, attempt = turn.terms.request_id, turn.attempt
        self.settle(turn)
        over = self._handovers.over(request, turn.pin)
        over = over or self.talks.over(request, turn.reached, turn.pin)
        self._patience.wait(request, attempt, over)

    def settle(self, turn: Turn) -> None:
        """Charge what it has taken to its account."""
        self.accounts.settle(turn.terms, turn.spent)

    def client_gone(self, request: RequestId) -> None:
        """Nobody reads it any more."""
        self._feed(self.coordinator.on_client_gone(request, self._world.now))
