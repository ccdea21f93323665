"""MACHINE: keeps the history: turns what the gateway does into facts, counted apart from it."""

from __future__ import annotations

from collections.abc import Sequence

from roost.core.engine import Mode
from roost.core.events import Delta, Finished, Started, StreamEvent, Vectors
from roost.core.ids import ModelId, NodeId, RequestId
from roost.core.request import ChatPrompt, GenerateRequest
from roost.core.snapshots import NodeStatus
from roost.errors import Failure, Fault
from roost.fleet.choice.homecoming import found, lost_tokens
from roost.fleet.conversations.compaction_effects import Told
from roost.fleet.effects import Dispatch, Report
from roost.fleet.streams.relay_effects import Mark
from roost.sim import vectors
from roost.sim.compute import answer_of, prompt_tokens
from roost.sim.gateway.sight import Sight
from roost.sim.history import History
from roost.sim.node.outlook import evicts
from roost.sim.node_facts import Drain, Wish
from roost.sim.request_facts import Ending, Opened, Shortened, Trace
from roost.sim.world import World


class Ledger:
    """Books of one gateway: who is out where, what each node last said, what each client got."""

    def __init__(self, world: World, history: History) -> None:
        self.history = history
        self._world = world
        self._sight = Sight(world, history)
        self._bereaved: dict[tuple[RequestId, int], NodeId] = {}
        # A dictionary, because it is walked through: the order of a set differs between runs.
        self._fresh: dict[RequestId, None] = {}
        self._last: dict[bytes, RequestId] = {}
        self._drains: dict[NodeId, Drain] = {}

    @property
    def out(self) -> int:
        """Attempts opened on a linked node and not released."""
        return len(self._sight.out)

    # Nodes.

    def heard(self, node: NodeId) -> None:
        """A message of this node was handed to the gateway."""
        self._sight.heard(node)

    def joined(self, node: NodeId) -> None:
        """A node has a new link; whatever was out on the old one is void."""
        self.gone(node)
        self._sight.joined(node)
        # For every model: who begins anew has failed nothing.
        self.history.closings.append((node, None, self._world.now))

    def reported(self, node: NodeId, status: NodeStatus) -> None:
        """A node reported."""
        self._sight.reports[node] = status

    def park(self, node: NodeId, *, parked: bool) -> None:
        """An operator has spoken."""
        self._sight.park(node, parked=parked)
        if parked:
            self._drains[node] = Drain(node, self._world.now)
            self.history.drains.append(self._drains[node])
        else:
            self._drains.pop(node, None)

    def cancelled(self, request: RequestId) -> None:
        """Somebody has asked for this request to be stopped; it may be over already."""
        trace = self.history.traces.get(request)
        if trace is not None and not trace.endings:
            trace.cancelled_s = self._world.now

    def gone(self, node: NodeId) -> None:
        """A node's link is over."""
        self._sight.reports.pop(node, None)
        for key in [key for key, (on, _) in self._sight.out.items() if on == node]:
            self.over(*key)
            self._give_back(key)

    def gateway_gone(self) -> None:
        """The gateway is dead: it owes nobody anything, and has forgotten what it was told."""
        for node in list(self._sight.reports):
            self.gone(node)
        self._fresh.clear()
        self._sight.forget()

    def completed(self, request: RequestId) -> bool:
        """Whether a request ended well."""
        return any(kind == "complete" for kind, _ in self.history.traces[request].endings)

    def moved(self, key: bytes, request: RequestId) -> None:
        """A conversation has been computed anew by this request, which is its home from now on."""
        self._last[key] = request

    def vacated(self, node: NodeId, left: int, *, vacant: bool) -> None:
        """A node was told whether anybody comes back to it, with so many conversations there."""
        drain = self._drains.get(node)
        if drain is not None and vacant and drain.told_s is None:
            drain.told_s, drain.left_when_told = self._world.now, left

    def drained(self, node: NodeId, status: NodeStatus, left: int) -> None:
        """A drained node is about to be given back."""
        drain = self._drains.get(node)
        if drain is None:
            return
        slots = [slot for view in status.runtimes for slot in view.slots]
        aside = status.sessions
        drain.until_s, drain.left, drain.busy = self._world.now, left, status.in_flight
        drain.sessions = sum(slot.tokens > 0 for slot in slots) + aside.ram + aside.disk

    def closed(self, node: NodeId | None, failure: Failure) -> None:
        """A link end closed by itself: for silence, or because somebody broke the protocol."""
        if "broke" in failure.message:
            self.history.defects.append(f"link to {node}: {failure.message}")

    def note(self, report: Report) -> None:
        """An operator would have been told this."""
        if report.reason == "breaker_open" and report.node is not None:
            self._sight.breaks(report.node, report.model, opened=True)
            self.history.openings.append((report.node, report.model, self._world.now))
        if report.reason == "breaker_closed" and report.node is not None:
            self._sight.breaks(report.node, report.model, opened=False)
            self.history.closings.append((report.node, report.model, self._world.now))
        if report.event == "node_left" and report.node is not None:
            self.gone(report.node)
        again = report.event in {"request_retried", "request_cut"}
        if again and report.request is not None:
            trace = self.history.traces[report.request]
            trace.retries.append(self._world.now)
            trace.opened[-1].died = report.reason in {"runtime_died", "node_lost"}
            if report.reason == "node_lost":
                self.lost(report.request)

    # Requests.

    def arrived(self, trace: Trace) -> None:
        """A request reached the gateway; one of a named conversation is not complete yet."""
        self.history.traces[trace.request] = trace
        # Who insists on a node may wait beside another one that is free.
        if trace.conversation is None and not trace.insists:
            self._fresh[trace.request] = None

    def begun(self, request: RequestId) -> None:
        """A turn's time has come."""
        self.history.traces[request].began_s = self._world.now

    def began(self, request: RequestId, asked: GenerateRequest) -> None:
        """A turn of a named conversation goes on from this past."""
        assert isinstance(asked.prompt, ChatPrompt), "clients here only chat"
        trace = self.history.traces[request]
        trace.arrived_s = self._world.now
        trace.summaries = len(self.history.shortened)
        trace.past = tuple(message.content for message in asked.prompt.messages)
        trace.oracle = tuple(answer_of(asked))
        trace.prompt_tokens = len(prompt_tokens(asked))
        if trace.conversation is not None:
            # A turn of which nothing reached its client is no past, but may have moved the home.
            last = self._last.get(trace.conversation)
            trace.previous = last if last and self.history.traces[last].stays else None
            self._last[trace.conversation] = request
        if not trace.insists:
            self._fresh[request] = None
        self._world.log(f"began {request} after {len(trace.past) - 1} messages")

    def shortened(self, made: Shortened) -> None:
        """A past is shorter from now on."""
        self.history.shortened.append(made)
        self._world.log(f"shortened {made.conversation.hex()} {made.trigger} {made.covers}")

    def undone(self, job: RequestId) -> None:
        """What a job has made shorter is as it was before."""
        for made in self.history.shortened:
            made.undone = made.undone or made.job == job
        self._world.log(f"undone {job}")

    def told(self, told: Told) -> None:
        """A compaction has come to its end, whatever it was."""
        self._world.log(f"compaction {told.job} {told.trigger} {told.outcome} {told.verdict}")

    def kept(self, request: RequestId) -> None:
        """What was said in this turn is on disk."""
        self.history.traces[request].kept = True

    def written(self, request: RequestId) -> None:
        """The client's socket has taken everything that was sent."""
        trace = self.history.traces[request]
        trace.reached = trace.text

    def admitted(self) -> None:
        """The gateway has made up its mind about the newest arrival."""
        self.history.queue_peak = max(self.history.queue_peak, len(self._fresh))

    def defect(self, what: str) -> None:
        """Something was seen that no machine may do."""
        self.history.defects.append(what)

    def failed(self, node: NodeId | None, failure: Failure) -> None:
        """A node failed an attempt, or refused it."""
        if node is not None and failure.kind.fault is Fault.PEER:
            self.history.faults.append((node, self._world.now))

    def lost(self, request: RequestId) -> None:
        """A request was taken away from its node: note how long that had been silent."""
        opened = self.history.traces[request].opened[-1]
        self.over(request, opened.attempt)
        if opened.lost_after_s is None:
            opened.lost_after_s = self._sight.silent_s(opened.node)

    def over(self, request: RequestId, attempt: int) -> None:
        """An attempt has ended: withdrawn, refused, failed, finished, or gone with its node."""
        for opened in self.history.traces[request].opened:
            if opened.attempt == attempt and opened.over_s is None:
                opened.over_s = self._world.now

    def refused(self, node: NodeId) -> None:
        """A node had no room: it is left alone for a while, on purpose."""
        self._sight.refused(node)

    def look(self) -> None:
        """The gateway has done what it wants to do for now: nobody may wait beside a free place."""
        idle: dict[tuple[ModelId, Mode], NodeId | None] = {}
        for request in self._fresh:
            trace = self.history.traces[request]
            asked = trace.model, trace.mode
            if asked not in idle:
                idle[asked] = self._sight.idle(*asked)
            if trace.overlooked is None:
                trace.overlooked = idle[asked]

    def wanted(self, node: NodeId, model: ModelId) -> None:
        """A node was asked to load a model."""
        sight = self._sight
        kind = model, sight.mode(node, model) or "generate"
        outlooks = sight.outlooks(*kind)
        traces = self.history.traces.values()
        waiting = sum((t.model, t.mode) == kind and _waits(t) for t in traces)
        under_way = sum(one == "coming" for one in outlooks.values())
        ready = [one for one, how in outlooks.items() if how == "ready"]
        places = sum(sight.has_room(one, model) for one in ready)
        roomy = bool(ready) and sight.costs_nobody(node, model)
        wish = Wish(self._world.now, node, model, waiting, under_way, places, roomy)
        self.history.wishes.append(wish)
        sight.asked(node, model)

    def dispatched(self, effect: Dispatch, model: ModelId, life: int) -> None:
        """A request was given to a node: note how that node looked from outside."""
        sight, node = self._sight, effect.node
        trace = self.history.traces[effect.request]
        tie = sight.tie(effect, model, trace.mode)
        outlooks = sight.outlooks(model, trace.mode)
        loads = outlooks.pop(node, None) == "cold"
        rivals = [other for other, one in outlooks.items() if one == "cold"]
        self._fresh.pop(effect.request, None)
        sight.take(effect, model)
        opened = Opened(
            at_s=self._world.now,
            attempt=effect.attempt,
            node=node,
            placement=effect.placement,
            why=effect.why,
            silent_s=sight.silent_s(node),
            draining=sight.drains(node),
            held=sight.held(node, model),
            limit=sight.limit(node, model),
            idle_rivals=tie,
            fleet_held=len(sight.out),
            node_held=sight.decodes(node),
            loads=loads,
            runtimes=sum(one in ("ready", "coming") for one in outlooks.values()),
            evicts=evicts(sight.reports[node], model) if loads else (),
            roomy=tuple(other for other in rivals if sight.is_roomy(other, model)),
            epoch=effect.epoch,
            life=life,
            resumes_at=effect.resumes_at,
            digest=sight.digest(node, model),
            mode=sight.mode(node, model),
            home_tokens=effect.home_tokens,
        )
        opened.heard = trace.heard
        if trace.retries:
            self._bereaved[effect.request, effect.attempt] = effect.node
            opened.bereaved = sum(on == effect.node for on in self._bereaved.values())
        trace.opened.append(opened)

    def released(self, request: RequestId, attempt: int) -> None:
        """A node has given back everything of this attempt."""
        self._give_back((request, attempt))

    def started(self, request: RequestId, started: Started) -> None:
        """A request holds a slot."""
        trace = self.history.traces[request]
        trace.cached_tokens = started.cached_tokens
        trace.held_tokens = started.prompt_tokens
        opened, cached = trace.opened[-1], started.cached_tokens
        opened.started = True
        told = opened.placement, opened.home_tokens, cached
        opened.label, opened.lost_tokens = found(*told), lost_tokens(*told)

    def heard_tokens(self, request: RequestId, tokens: int) -> None:
        """So many tokens more of an answer have come, of the attempt that counts."""
        self.history.traces[request].heard += tokens

    def spoke(self, request: RequestId, attempt: int) -> None:
        """An attempt has said its first word."""
        self._bereaved.pop((request, attempt), None)

    def committed(self, request: RequestId) -> None:
        """A client was promised an answer with status 200."""
        self._world.log(f"commit {request}")

    def sent(self, request: RequestId, events: Sequence[StreamEvent | Mark], dropped: int) -> None:
        """These were handed to the client's writer; so many pieces before them were dropped."""
        trace = self.history.traces[request]
        trace.dropped += dropped
        for event in events:
            if trace.saw_last_event:
                self.history.defects.append(f"{request}: an event after the last one")
            if isinstance(event, Delta):
                trace.text += event.text
                trace.first_byte_s = trace.first_byte_s or self._world.now
            if isinstance(event, Vectors):
                trace.text += "".join(vectors.read(event))
            trace.marks += isinstance(event, Mark)
            trace.saw_last_event = isinstance(event, Finished)
            if isinstance(event, Finished):
                trace.told = event.usage
            trace.told_unkept = trace.told_unkept or (trace.saw_last_event and not trace.kept)
        self._world.log(f"sent {request} {len(trace.text)}")

    def ended(self, request: RequestId, ending: Ending, failure: Failure | None) -> None:
        """A client's request has come to this ending."""
        trace = self.history.traces[request]
        trace.endings.append((ending, failure))
        self._fresh.pop(request, None)
        trace.over_s = self._world.now
        self._world.log(f"end {request} {ending} {failure.reason if failure else ''}")

    def _give_back(self, key: tuple[RequestId, int]) -> None:
        self._bereaved.pop(key, None)
        if not self._sight.give_back(key):
            return
        trace = self.history.traces[key[0]]
        for opened in trace.opened:
            if opened.attempt == key[1]:
                opened.released_s = self._world.now


def _waits(trace: Trace) -> bool:
    """Whether a request is on no node, be it new or taken off one."""
    return not trace.endings and (not trace.opened or trace.opened[-1].over_s is not None)
