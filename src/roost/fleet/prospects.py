"""MACHINE: the fleet as one request sees it: its home, its lengths, and the board of candidates."""

from __future__ import annotations

import msgspec

from roost.core.events import Started, Usage
from roost.core.ids import ModelId, NodeId
from roost.fleet.calls import Call
from roost.fleet.choice.affinity import Affinity, Home, extend
from roost.fleet.choice.board import Board
from roost.fleet.choice.leases import Leases
from roost.fleet.choice.scoring import Ask
from roost.fleet.field import Candidate, Field
from roost.fleet.nodes.registry import Registry
from roost.fleet.settings import FleetSettings

_NOBODY: frozenset[NodeId] = frozenset()


class Prospects:
    """Turns what is known into candidates and wishes, and learns; decides nothing."""

    def __init__(self, settings: FleetSettings, registry: Registry, leases: Leases) -> None:
        self._registry = registry
        self._leases = leases
        self._homes = Affinity(settings.affinity_entries, settings.affinity_ttl_s)
        self.board = Board(settings, registry, leases)

    @property
    def homes(self) -> int:
        """How many histories have a known home."""
        return len(self._homes)

    def candidates(self, model: ModelId, now: float) -> Field:
        """Linked nodes that offer the model."""
        return self.board.candidates(model, now)

    def home(self, call: Call, now: float) -> Home | None:
        """Where the longest known part of the request's conversation was last computed.

        A pin says so for conversations that this gateway has not served itself, an alias for those
        whose history is not known. Conversations grow: of a pin and what is known of the history
        here, the one of more tokens is the newer one.
        """
        chain, pin = call.terms.chain, call.terms.pin
        known = self._homes.lookup(chain, now) if chain else None
        newer = known is not None and pin is not None and known.tokens >= pin.tokens
        if known is None and call.terms.alias:
            known = self._homes.lookup((call.terms.alias,), now)
        if pin is None or pin.model != call.model:
            return known
        if known and known.node == pin.node:
            if not pin.moved:
                return known
            # What was moved was computed with nothing behind it: the next turn writes that seam.
            sure_tokens = min(known.sure_tokens, pin.tokens)
            return msgspec.structs.replace(known, sure_tokens=sure_tokens)
        if known and ((newer and self._linked(known.node)) or not self._linked(pin.node)):
            return known
        return Home(pin.node, None, pin.tokens, pin.tokens)

    def _linked(self, node: NodeId) -> bool:
        record = self._registry.get(node)
        return record is not None and record.linked

    def measure(self, call: Call, now: float) -> Home | None:
        """Estimate the request's lengths and cost by what is known at this moment; its home too."""
        lengths = self.board.pace.lengths(call.model)
        call.prompt_tokens = lengths.prompt(call.terms)
        call.answer_tokens = lengths.answer(call.terms)
        home = self.home(call, now)
        cached = 0 if home is None else home.tokens
        call.cost = max(1, call.prompt_tokens - cached) + call.answer_tokens
        return home

    def ask(self, call: Call, home: Home | None) -> Ask:
        """What this request wants: its home, if it has one that is still of use."""
        if home is None:
            return self._ask(call)
        return self._ask(call, home, self._lost(home, call.model))

    def _lost(self, home: Home, model: ModelId) -> str:
        """Why a home cannot have kept anything; "" while it may have."""
        node = self._registry.get(home.node)
        if node is None or not node.linked:
            return "home_gone"
        # A new link says nothing before its first report: the runtime may have outlived the old.
        now = node.running(model)
        if home.runtime is None or not node.reported or now == home.runtime:
            return ""
        return "runtime_gone" if now is None else "runtime_replaced"

    def filters(self, call: Call) -> Ask:
        """The request as the filters see it, without its home."""
        return self._ask(call)

    def _ask(self, call: Call, had: Home | None = None, lost: str = "") -> Ask:
        terms = call.terms
        home = None if lost else had
        return Ask(
            home=home.node if home is not None else None,
            lost=lost,
            tried=frozenset(call.tried) if call.tried else _NOBODY,
            resting=self._resting(call) if call.resting else _NOBODY,
            prompt_tokens=call.prompt_tokens + call.resumes_at,
            cached_tokens=home.tokens if home is not None else 0,
            sure_tokens=had.sure_tokens if had is not None else 0,
            answer_tokens=max(1, call.answer_tokens - call.resumes_at),
            # An answer that has filled the context is complete, and there somebody can say so.
            least_tokens=call.prompt_tokens + call.resumes_at - 1
            if call.resumes_at
            else terms.prompt_tokens,
            prompt_bytes=terms.prompt_bytes,
            beginning=terms.chain[0] if terms.chain else b"",
        )

    def need_tokens(self, call: Call, candidate: Candidate) -> int:
        """KV that the request may fill there: its prompt, and as much answer as fits."""
        rest = max(0, candidate.ctx - call.prompt_tokens)
        wanted = call.terms.max_tokens
        return min(candidate.ctx, call.prompt_tokens + (rest if wanted is None else wanted))

    def started(self, call: Call, node: NodeId, started: Started, now: float) -> None:
        """The request holds a slot, and its prompt's tokens are counted."""
        attempt = call.now_on
        attempt.started_s, attempt.started = now, started
        if not call.resumes_at:
            lengths = self.board.pace.learn_lengths(call.model)
            lengths.note_prompt(call.terms, started.prompt_tokens)
        self.board.room(node, call.model)

    def settled(self, call: Call, node: NodeId, now: float) -> None:
        """The request's whole prompt is in this node's KV."""
        attempt = call.now_on
        attempt.first_token_s = now
        attempt.streams = self._leases.in_flight(node)
        tokens = call.prompt_tokens
        if attempt.started is not None and attempt.started_s is not None:
            tokens = attempt.started.prompt_tokens
            fresh = tokens - attempt.started.cached_tokens
            if self._registry.serves(node, call.model, "all"):
                # Others say that they have started when the prefill is over: no time at all.
                took_s = now - attempt.started_s
                self.board.pace.note_prefill(node, call.model, fresh, took_s, now)
            self.board.touch(node)
        if call.terms.chain:
            home = self._home(call.model, node, tokens, tokens)
            self._homes.remember(call.terms.chain[-1], home, now)
        if call.terms.alias:
            # Nobody knows how much of it the next one shares: it is worth a preference, no tokens.
            self._homes.remember(call.terms.alias, self._home(call.model, node, 0, 0), now)

    def answered(self, call: Call, node: NodeId, usage: Usage, answer: str, now: float) -> None:
        """So is its answer: the next turn will begin with both."""
        attempt = call.now_on
        call.completion_tokens = call.resumes_at + usage.completion_tokens
        if call.completion_tokens > 0:
            self.board.pace.learn_lengths(call.model).note_answer(call.completion_tokens)
        if attempt.first_token_s is not None:
            took_s, said = now - attempt.first_token_s, usage.completion_tokens - 1
            streams = max(1, attempt.streams)
            self.board.pace.note_decode(node, call.model, said, took_s, streams, now)
            self.board.touch(node)
        if call.terms.chain:
            key = extend(call.terms.chain[-1], "assistant", answer)
            tokens = usage.prompt_tokens + usage.completion_tokens
            # What was said before a loss came to this node as ids: it is answer all the same.
            home = self._home(call.model, node, tokens, usage.prompt_tokens - call.resumes_at)
            self._homes.remember(key, home, now)

    def rest(self, call: Call, node: NodeId) -> bool:
        """Let the request come back to this node when its runtime is another one; False if gone."""
        record = self._registry.get(node)
        if record is None or not record.linked or call.model not in record.offers:
            return False
        call.resting[node] = (record.seq, record.running(call.model))
        return True

    def _resting(self, call: Call) -> frozenset[NodeId]:
        """Nodes of which it is not known yet that the runtime that failed the request is gone."""
        resting = set()
        for node, (seq, runtime) in call.resting.items():
            record = self._registry.get(node)
            if record is None:
                continue
            same = runtime is not None and record.running(call.model) == runtime
            if same or record.seq <= seq:
                resting.add(node)
        return frozenset(resting)

    def predicted_s(self, ask: Ask, candidate: Candidate) -> float | None:
        """Seconds until this node would have answered; None if it is not known well enough."""
        if not candidate.sure:
            return None
        cached = ask.cached_tokens if candidate.node == ask.home else 0
        prefill = max(0, ask.prompt_tokens - cached)
        return (
            candidate.ahead_s
            + candidate.prefill_s * prefill
            + candidate.decode_s * ask.answer_tokens
        )

    def _home(self, model: ModelId, node: NodeId, tokens: int, sure_tokens: int) -> Home:
        record = self._registry.get(node)
        runtime = record.running(model) if record is not None else None
        return Home(node, runtime, tokens, sure_tokens)
