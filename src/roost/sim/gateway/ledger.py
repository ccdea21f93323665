"""MACHINE: keeps the history: turns what the gateway does into facts, counted apart from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from roost.core.events import Delta, Finished, Started, StreamEvent
from roost.core.ids import ModelId, NodeId, RequestId
from roost.core.request import ChatPrompt, GenerateRequest
from roost.core.snapshots import NodeStatus
from roost.errors import Failure, Fault
from roost.fleet.choice.homecoming import found, lost_tokens
from roost.fleet.conversations.compaction_effects import Told
from roost.fleet.effects import Dispatch, Report
from roost.fleet.streams.relay_effects import Mark
from roost.sim.compute import answer_of, prompt_tokens
from roost.sim.history import Drain, Ending, History, Opened, Shortened, Trace, Wish
from roost.sim.node.outlook import Outlook, evicts, has_space, outlook, with_work
from roost.sim.world import World


class Ledger:
    """Books of one gateway: who is out where, what each node last said, what each client got."""

    def __init__(self, world: World, history: History) -> None:
        self.history = history
        self._world = world
        self._reports: dict[NodeId, NodeStatus] = {}
        self._heard_s: dict[NodeId, float] = {}
        self._out: dict[tuple[RequestId, int], tuple[NodeId, ModelId]] = {}
        self._places: Counter[tuple[NodeId, ModelId]] = Counter()
        self._refused_s: dict[NodeId, float] = {}
        self._broken: set[NodeId] = set()
        self._bereaved: dict[tuple[RequestId, int], NodeId] = {}
        self._parked: set[NodeId] = set()
        # A dictionary, because it is walked through: the order of a set differs between runs.
        self._fresh: dict[RequestId, None] = {}
        self._asked: dict[tuple[NodeId, ModelId], float] = {}
        self._last: dict[bytes, RequestId] = {}
        self._drains: dict[NodeId, Drain] = {}

    @property
    def out(self) -> int:
        """Attempts opened on a linked node and not released."""
        return len(self._out)

    # Nodes.

    def heard(self, node: NodeId) -> None:
        """A message of this node was handed to the gateway."""
        self._heard_s[node] = self._world.now

    def joined(self, node: NodeId) -> None:
        """A node has a new link; whatever was out on the old one is void."""
        self.gone(node)
        self._broken.discard(node)
        self._asked = {key: until for key, until in self._asked.items() if key[0] != node}
        self.heard(node)

    def reported(self, node: NodeId, status: NodeStatus) -> None:
        """A node reported."""
        self._reports[node] = status

    def park(self, node: NodeId, *, parked: bool) -> None:
        """An operator has spoken."""
        if parked:
            self._parked.add(node)
            self._drains[node] = Drain(node, self._world.now)
            self.history.drains.append(self._drains[node])
        else:
            self._parked.discard(node)
            self._drains.pop(node, None)

    def cancelled(self, request: RequestId) -> None:
        """Somebody has asked for this request to be stopped; it may be over already."""
        trace = self.history.traces.get(request)
        if trace is not None and not trace.endings:
            trace.cancelled_s = self._world.now

    def gone(self, node: NodeId) -> None:
        """A node's link is over."""
        self._reports.pop(node, None)
        for key in [key for key, (on, _) in self._out.items() if on == node]:
            self.over(*key)
            self._give_back(key)

    def gateway_gone(self) -> None:
        """The gateway is dead: it owes nobody anything, and has forgotten what it was told."""
        for node in list(self._reports):
            self.gone(node)
        for memory in (self._fresh, self._parked, self._broken, self._asked, self._heard_s):
            memory.clear()

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
            self._broken.add(report.node)
            self.history.openings.append((report.node, self._world.now))
        if report.reason == "breaker_closed" and report.node is not None:
            self._broken.discard(report.node)
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
            opened.lost_after_s = self._world.now - self._heard_s[opened.node]

    def over(self, request: RequestId, attempt: int) -> None:
        """An attempt has ended: withdrawn, refused, failed, finished, or gone with its node."""
        for opened in self.history.traces[request].opened:
            if opened.attempt == attempt and opened.over_s is None:
                opened.over_s = self._world.now

    def refused(self, node: NodeId) -> None:
        """A node had no room: it is left alone for a while, on purpose."""
        self._refused_s[node] = self._world.now

    def look(self) -> None:
        """The gateway has done what it wants to do for now: nobody may wait beside a free place."""
        now = self._world.now
        idle: dict[ModelId, NodeId | None] = {}
        for request in self._fresh:
            trace = self.history.traces[request]
            if trace.model not in idle:
                idle[trace.model] = self._idle(trace.model, now)
            if trace.overlooked is None:
                trace.overlooked = idle[trace.model]

    def _idle(self, model: ModelId, now: float) -> NodeId | None:
        """A node where somebody who waits for this model could be."""
        open_to = with_work(self._outlooks(model, now), self.history.replicas)
        rooms = (node for node in sorted(open_to) if self._has_room(node, model, now))
        return next(rooms, None)

    def wanted(self, node: NodeId, model: ModelId) -> None:
        """A node was asked to load a model."""
        now = self._world.now
        outlooks = self._outlooks(model, now)
        waiting = sum(t.model == model and _waits(t) for t in self.history.traces.values())
        under_way = sum(one == "coming" for one in outlooks.values())
        ready = [one for one, how in outlooks.items() if how == "ready"]
        places = sum(self._has_room(one, model, now) for one in ready)
        loads = self._reports[node].loads or ()
        roomy = bool(ready) and all(load.model != model for load in loads)
        self.history.wishes.append(Wish(now, node, model, waiting, under_way, places, roomy))
        self._asked[node, model] = now + self.history.want_s

    def _outlooks(self, model: ModelId, now: float) -> dict[NodeId, Outlook]:
        """How far each node that takes work is with this model."""
        well = [node for node in self._reports if self._is_well(node, model, now)]
        return {
            node: outlook(self._reports[node], model, sent=self._is_sent(node, model, now))
            for node in well
        }

    def _is_sent(self, node: NodeId, model: ModelId, now: float) -> bool:
        return self._places[node, model] > 0 or self._asked.get((node, model), 0.0) > now

    def _is_well(self, node: NodeId, model: ModelId, now: float) -> bool:
        report = self._reports[node]
        if node in self._broken or node in self._parked:
            return False
        if report.draining or now >= self._heard_s[node] + 2.0:
            return False
        return any(one.model == model and one.usable for one in report.models)

    def _has_room(self, node: NodeId, model: ModelId, now: float) -> bool:
        report = self._reports[node]
        # A node that refused is backed off for up to 8 s.
        if self._capped(node) or now < self._refused_s.get(node, -math.inf) + 8.5:
            return False
        offer = next(one for one in report.models if one.model == model)
        limit = min(offer.slots, report.max_in_flight)
        return self._places[node, model] < limit and has_space(report, model)

    def _digest(self, node: NodeId, model: ModelId) -> str:
        report = self._reports.get(node)
        offers = () if report is None else report.models
        return next((offer.digest for offer in offers if offer.model == model), "")

    def _capped(self, node: NodeId) -> bool:
        """Whether a cap of the settings forbids more, here or everywhere."""
        history = self.history
        if 0 < history.max_decodes <= len(self._out):
            return True
        if not history.max_decodes_per_node:
            return False
        return history.max_decodes_per_node <= self._decodes(node)

    def dispatched(self, effect: Dispatch, model: ModelId, life: int) -> None:
        """A request was given to a node: note how that node looked from outside."""
        now = self._world.now
        report = self._reports.get(effect.node)
        limit = 0
        if report is not None:
            slots = [offer.slots for offer in report.models if offer.model == model]
            limit = min(report.max_in_flight, *slots) if slots else 0
        tie = self._tie(effect, model)
        outlooks = self._outlooks(model, now)
        mine = outlooks.pop(effect.node, None)
        rivals = [node for node, one in outlooks.items() if one == "cold"]
        self._fresh.pop(effect.request, None)
        self._out[effect.request, effect.attempt] = (effect.node, model)
        self._places[effect.node, model] += 1
        opened = Opened(
            at_s=now,
            attempt=effect.attempt,
            node=effect.node,
            placement=effect.placement,
            why=effect.why,
            silent_s=now - self._heard_s.get(effect.node, 0.0),
            draining=effect.node in self._parked or (report is not None and report.draining),
            held=self._places[effect.node, model],
            limit=limit,
            idle_rivals=tie,
            fleet_held=len(self._out),
            node_held=self._decodes(effect.node),
            loads=mine == "cold",
            runtimes=sum(one in ("ready", "coming") for one in outlooks.values()),
            evicts=evicts(report, model) if report is not None and mine == "cold" else (),
            roomy=tuple(n for n in rivals if self._is_roomy(n, model, now)),
            epoch=effect.epoch,
            life=life,
            resumes_at=effect.resumes_at,
            digest=self._digest(effect.node, model),
            home_tokens=effect.home_tokens,
        )
        trace = self.history.traces[effect.request]
        opened.heard = trace.heard
        if trace.retries:
            self._bereaved[effect.request, effect.attempt] = effect.node
            opened.bereaved = sum(on == effect.node for on in self._bereaved.values())
        trace.opened.append(opened)

    def _decodes(self, node: NodeId) -> int:
        """Count a node's places, but for those of whom it has said that they wait for a load."""
        report, mine = self._reports.get(node), sum(on == node for on, _ in self._out.values())
        views = report.runtimes if report is not None else ()
        return mine - sum(min(self._places[node, view.model], view.waiting) for view in views)

    def _is_roomy(self, node: NodeId, model: ModelId, now: float) -> bool:
        """Whether a load there would cost no other model its runtime, nor any wait."""
        free = all(load.model != model for load in self._reports[node].loads or ())
        return free and self._has_room(node, model, now)

    def _tie(self, effect: Dispatch, model: ModelId) -> int:
        """How many nodes were equally idle; 0 where something else than chance decided."""
        if effect.placement != "cold" or self._out:
            return 0
        fresh = [node for node, seen in self._heard_s.items() if self._world.now < seen + 2.0]
        offers = [
            node
            for node in fresh
            if (report := self._reports.get(node)) is not None
            and not report.draining
            and node not in self._parked
            and any(offer.model == model and offer.usable for offer in report.models)
        ]
        return len(offers)

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
        place = self._out.pop(key, None)
        if place is None:
            return
        self._places[place] -= 1
        trace = self.history.traces[key[0]]
        for opened in trace.opened:
            if opened.attempt == key[1]:
                opened.released_s = self._world.now


def _waits(trace: Trace) -> bool:
    """Whether a request is on no node, be it new or taken off one."""
    return not trace.endings and (not trace.opened or trace.opened[-1].over_s is not None)
