"""MACHINE: the one place that gives work to nodes: it walks the line and places whoever can run."""

from __future__ import annotations

from operator import attrgetter

import msgspec

from roost.core.ids import ModelId
from roost.errors import Failure, prompt_too_long
from roost.fleet.books import Books
from roost.fleet.calls import Attempt, Call
from roost.fleet.choice.affinity import Home
from roost.fleet.choice.leases import Share
from roost.fleet.choice.routing import (
    WAIT_FOR,
    Choice,
    choose,
    hopeful,
    least_tokens,
    obstacle,
    only_too_long,
)
from roost.fleet.choice.scoring import Ask
from roost.fleet.effects import Dispatch, Placement
from roost.fleet.field import Field, field_of
from roost.fleet.line import refusals
from roost.fleet.placing import Placer


class Assigner:
    """Decides, for everybody who waits, whether and where to run, or that there is no hope."""

    def __init__(self, books: Books, placer: Placer) -> None:
        self._books = books
        self._placer = placer

    def reconsider(self, now: float) -> None:
        """Place whoever can be placed."""
        full: set[ModelId] = set()
        for entry in self._books.queue.entries():
            call = self._books.waiting(entry.request)
            if entry.model in full and not call.failures:
                continue
            home = self._books.prospects.home(call, now)
            choosy = entry.choosy or self._books.is_choosy(call)
            if not self.place(call, home, now) and not (call.failures or choosy):
                # No room even for a request that would take any node: none for any like it.
                full.add(entry.model)

    def place(self, call: Call, home: Home | None, now: float) -> bool:
        """Settle what becomes of a request whose turn it is; False if it has to wait.

        `home` is where its conversation was by now.
        """
        prospects = self._books.prospects
        if call.left_s(now) == 0:
            self._books.answer(call, refusals.deadline(call.terms.timeout_s or 0.0), now)
            return True
        ask = prospects.ask(call, home)
        if call.terms.require and ask.home is None and (ask.lost or call.terms.has_past):
            failure = call.loss or call.setback or refusals.session_gone(ask.lost)
            self._books.answer(call, failure, now)
            return True
        while True:
            field = self._field(call, now)
            if call.terms.require and ask.home is not None:
                field = field.only(lambda one: one.node == ask.home)
            choice = self._choose(call, ask, field, now)
            if choice is None:
                return self._give_up(call, ask, field, now)
            if prospects.board.confirm(choice.node, now):
                self._dispatch(call, ask, choice, now)
                return True

    def refuse_waiting(self, now: float) -> None:
        """Without a line, whoever could not start at once is refused at once."""
        for entry in self._books.queue.entries():
            call = self._books.waiting(entry.request)
            busy = refusals.queue_full(self._books.hint_s(call.model, now))
            self._books.answer(call, call.setback or busy, now)

    def hope(self, call: Call, now: float) -> bool:
        """Whether any node is left that could serve the request sooner or later."""
        return hopeful(self._field(call, now), self._books.prospects.filters(call))

    def _field(self, call: Call, now: float) -> Field:
        """Who could have the request: to go on with an answer, only those with the same weights."""
        field, registry = self._books.prospects.candidates(call.model, now), self._books.registry
        if registry.narrow:
            needs = call.terms.needs
            field = field.only(lambda one: registry.serves(one.node, call.model, needs))
        unfit = call.terms.unfit
        if unfit:
            field = field.only(lambda one: one.node not in unfit)
        mode = call.terms.mode
        if registry.modes(call.model) - {mode}:
            # A node may have another model of that name, or be of a release that cannot even read
            # what is asked.
            field = field.only(lambda one: registry.mode(one.node, call.model) == mode)
        if not call.resumes_at:
            return field
        digest = registry.digest
        return field.only(lambda one: digest(one.node, call.model) == call.digest)

    def _choose(self, call: Call, ask: Ask, field: Field, now: float) -> Choice | None:
        books = self._books
        if call.failures:
            # After a death its requests would fall on the survivors all at once: a few at a time.
            most = books.settings.redispatch_per_node
            field = field.only(lambda one: books.leases.recovering(one.node) < most)
        if 0 < books.settings.max_decodes <= len(books.leases):
            return None
        policy = books.settings.policy
        if books.prospects.board.nobody(call.model, call.terms.mode):
            field = self._placer.cheapest(ask, call.model, field, now)
        choice = choose(ask, field, policy, books.dice)
        if choice is not None or not _needs_another(field, ask):
            return choice
        field = self._placer.cheapest(ask, call.model, _opened(field), now)
        return choose(ask, field, policy, books.dice)

    def _give_up(self, call: Call, ask: Ask, field: Field, now: float) -> bool:
        if hopeful(field, ask):
            return False
        if only_too_long(field, ask):
            largest = max(field.candidates, key=attrgetter("ctx"))
            least = least_tokens(ask, largest)
            self._books.answer(call, prompt_too_long(least, largest.ctx, "messages"), now)
        else:
            self._books.answer(call, self._hopeless(call, ask), now)
        return True

    def _dispatch(self, call: Call, ask: Ask, choice: Choice, now: float) -> None:
        books, prospects = self._books, self._books.prospects
        chosen = choice.chosen
        books.serve(call, now)
        call.attempt += 1
        call.node = choice.node
        call.queued_s += now - call.waiting_since_s
        call.setback = None
        if not call.resumes_at:
            call.digest = books.registry.digest(choice.node, call.model)
        if call.terms.rewritten:
            # Whatever its KV was, it is that of another past; nothing of it was to be found again.
            choice = msgspec.structs.replace(choice, placement="moved", why="compacted")
        placement, why = _placed(call, choice)
        prefill = ask.prompt_tokens - (ask.cached_tokens if choice.placement == "warm" else 0)
        tokens = prospects.need_tokens(call, chosen)
        share = Share(tokens, max(0, prefill), recovering=call.failures > 0, since_s=now)
        books.leases.take(call.id, call.attempt, choice.node, call.model, share)
        predicted_s = prospects.predicted_s(ask, chosen)
        attempt = Attempt(
            call.attempt, choice, placement, why, now, predicted_s, resumes_at=call.resumes_at
        )
        # What a loss in mid-answer costs is told by its replays, what compaction does by itself.
        # A beginning has lost nothing.
        told_otherwise = call.resumes_at or call.terms.rewritten or call.terms.fresh
        attempt.home_tokens = 0 if told_otherwise else ask.sure_tokens
        call.trail.append(attempt)
        prospects.board.picked(choice.node, call.model)
        books.counts["dispatched"] += 1
        books.counts["warm"] += choice.placement == "warm"
        books.out.append(
            Dispatch(
                request=call.id,
                attempt=call.attempt,
                node=choice.node,
                placement=placement,
                why=why,
                queued_s=call.queued_s,
                deadline_s=call.left_s(now),
                policy=choice.policy,
                score=choice.score,
                candidates=choice.candidates,
                runner_up=choice.runner_up,
                predicted_s=predicted_s,
                epoch=books.counts["dispatched"],
                resumes_at=call.resumes_at,
                lost_to=call.loss.reason if call.loss else "",
                digest=call.digest,
                home_tokens=attempt.home_tokens,
            )
        )

    def _hopeless(self, call: Call, ask: Ask) -> Failure:
        failure = call.loss or call.setback
        if failure is not None:
            return failure
        if call.terms.require and ask.home is not None:
            return refusals.session_gone("home_closed")
        registry, hint_s = self._books.registry, self._books.settings.retry_after_default_s
        if registry.narrow and not self._anybody(call):
            return refusals.turns_only(call.model)
        if registry.knows(call.model):
            return refusals.no_nodes(call.model, hint_s)
        if registry.settled():
            return refusals.model_not_found(call.model)
        return refusals.nobody_connected(hint_s)

    def _anybody(self, call: Call) -> bool:
        """Whether any node that offers the model, now or before, serves what is asked."""
        registry, model = self._books.registry, call.model
        offering = [node.id for node in registry.all() if model in node.offers]
        return not offering or any(registry.serves(n, model, call.terms.needs) for n in offering)


def _placed(call: Call, choice: Choice) -> tuple[Placement, str]:
    """How the node relates to the home that the client knows of, and why it was chosen."""
    pin = call.terms.pin
    if choice.placement == "warm" and pin is not None and pin.moved and pin.node == choice.node:
        return "moved", pin.moved
    if call.terms.fresh and choice.placement in {"moved", "lost"}:
        return "cold", "no_home"
    return choice.placement, "runtime_back" if choice.node in call.resting else choice.why


def _needs_another(field: Field, ask: Ask) -> bool:
    """Whether no runtime that there is, or will be, is of any use to this request.

    It failed there already, or is too long for them. Everybody else waits for what there is.
    """
    cold = False
    for one in field.candidates:
        what = obstacle(one, ask)
        if what == "cold":
            cold = True
        elif what in WAIT_FOR and what != "no_room":
            return False
    return cold


def _opened(field: Field) -> Field:
    """Ask the nodes without a runtime as well."""
    return field_of(
        msgspec.structs.replace(one, closed="") if one.closed == "cold" else one
        for one in field.candidates
    )
