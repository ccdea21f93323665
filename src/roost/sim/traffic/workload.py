"""MACHINE: clients: conversations that begin at random moments and behave well or badly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from roost.core.allowance import Account
from roost.core.ids import ConversationKey, ModelId, RequestId, TenantId
from roost.core.request import ChatPrompt, GenerateRequest, Message, ServiceClass, Terms
from roost.fleet.choice.affinity import chain
from roost.fleet.conversations.registry import conversation_key
from roost.fleet.streams.idempotency import Claim, Idempotency, IdempotencySettings
from roost.fleet.streams.stream_log import StreamLog
from roost.sim.compute import answer_of, prompt_tokens
from roost.sim.gateway import repeats
from roost.sim.gateway.front import Front
from roost.sim.gateway.ledger import Ledger
from roost.sim.gateway.lines import Reader
from roost.sim.request_facts import Trace
from roost.sim.scenario import Scenario
from roost.sim.traffic import handings, wanderers
from roost.sim.traffic.asking import Asked
from roost.sim.traffic.clients import Client, Manners, nothing
from roost.sim.traffic.listings import Listing
from roost.sim.traffic.playback import Speaker, play_back
from roost.sim.world import World

if TYPE_CHECKING:
    from random import Random


class ClientParts(msgspec.Struct, frozen=True):
    """What stands between clients and the gateway; tests put defective parts in."""

    keys: Callable[[IdempotencySettings], Idempotency] = Idempotency
    log: wanderers.Logs = StreamLog


FLOOD = TenantId("key:flood")


class Workload:
    """All clients of one run, and what stands between them and the gateway: keys and logs."""

    def __init__(
        self, scenario: Scenario, world: World, front: Front, ledger: Ledger, parts: ClientParts
    ) -> None:
        self._traffic = scenario.traffic
        self._tape = scenario.tape
        self._models = scenario.models
        self._modes = scenario.modes
        self._duration_s = scenario.duration_s
        self._allowance = scenario.allowance
        self._world = world
        self._front = front
        self._ledger = ledger
        self._repeats = repeats.Repeats(world, ledger.history, parts.keys(scenario.idempotency))
        self._logs, self._reattach = parts.log, scenario.reattach
        # Each conversation has dice of its own: what one does moves nothing in another one, so two
        # policies see the same traffic.
        self._dice = world.dice("workload")
        self._requests = 0
        self._conversations = 0
        self.thinking = 0

    def begin(self) -> None:
        """Let conversations begin until the scenario's time is over, or play what is recorded."""
        if self._tape is not None:
            play_back(self, self._world, self._tape, self._models)
            return
        gap_s = self._dice.expovariate(self._traffic.rate_per_s)
        if self._world.now + gap_s < self._duration_s:
            self._world.at(gap_s, self._arrive)

    def flood(self) -> None:
        """Let one tenant ask and ask."""
        if not self._traffic.flood_per_s:
            return
        begin_s, end_s = self._traffic.flood_s
        dice = self._world.dice("flood")
        when_s, count = begin_s, 0
        while (when_s := when_s + dice.expovariate(self._traffic.flood_per_s)) < end_s:
            count += 1
            self._world.at(max(0.0, when_s - self._world.now), partial(self._flood, count))

    def _flood(self, count: int) -> None:
        dice = self._world.dice(f"flood {count}")
        self._talk(dice, dice.choice(self._models), 1, FLOOD).next(Manners())

    def probe(self, model: str) -> None:
        """Ask one plain question."""
        self._talk(self._dice, model, turns=1).next(Manners())

    def _arrive(self) -> None:
        dice = self._world.dice(f"conversation {self._conversations + 1}")
        turns = dice.randint(*self._traffic.turns)
        model = dice.choice(self._models)
        if self._traffic.handed and dice.random() < self._traffic.handed:
            who = self.name(dice, None)[0]
            plan = handings.plan(self._traffic, dice, who, model, self.words(dice))
            talk = handings.Handing(self, self._world, self._front, dice, plan)
            talk.next(self.manners(dice))
        else:
            self._talk(dice, model, turns).next(self.manners(dice))
        self.begin()

    def _talk(
        self, dice: Random, model: str, turns: int, tenant: TenantId | None = None
    ) -> Conversation | Listing:
        """Whoever asks what this model is for."""
        modes = self._modes(model)
        mode = modes[0] if len(modes) == 1 else dice.choice(modes)
        if mode == "generate":
            return Conversation(self, dice, model, turns, tenant)
        return Listing(self, self._world, dice, self.name(dice, tenant)[0], (model, mode))

    def manners(self, dice: Random) -> Manners:
        """Draw how a client behaves."""
        traffic = self._traffic
        roll = dice.random
        vanish = roll() < traffic.vanish
        by_time = roll() < 0.7
        return Manners(
            streamed=roll() < traffic.streamed,
            chars_per_s=traffic.slow_chars_per_s if roll() < traffic.slow else None,
            stuck_after=dice.randint(0, 3) if roll() < traffic.stuck else None,
            vanish_s=dice.uniform(*traffic.vanish_s) if vanish and by_time else None,
            vanish_after=dice.randint(0, 5) if vanish and not by_time else None,
            timeout_s=dice.uniform(*traffic.hurry_s) if roll() < traffic.hurry else None,
            cancel_s=dice.uniform(*traffic.vanish_s)
            if traffic.cancel and roll() < traffic.cancel
            else None,
            replays=bool(traffic.replay) and roll() < traffic.replay,
        )

    def think(self, talk: Conversation) -> None:
        """Let a conversation go on after a pause, if there is time left."""
        pause_s = talk.dice.uniform(*self._traffic.think_s)
        if self._world.now + pause_s >= self._duration_s:
            return
        self.thinking += 1
        self._world.at(pause_s, lambda: self._go_on(talk))

    def hasty(self, talk: Conversation) -> bool:
        """Perhaps let a conversation go on before its answer has come."""
        traffic = self._traffic
        if not traffic.hasty or talk.dice.random() >= traffic.hasty:
            return False
        self.thinking += 1
        self._world.at(talk.dice.uniform(*traffic.hasty_s), lambda: self._go_on(talk))
        return True

    def key(self, dice: Random, tenant: TenantId, about: str) -> ConversationKey | None:
        """What a conversation is called by, if the gateway is to keep its past."""
        if not self._traffic.named or dice.random() >= self._traffic.named:
            return None
        return conversation_key(tenant, about)

    def _go_on(self, talk: Conversation) -> None:
        self.thinking -= 1
        talk.next(self.manners(talk.dice))

    def words(self, dice: Random) -> str:
        """Some words for a message."""
        count = dice.randint(*self._traffic.words)
        words: list[str] = []
        bits = dice.getrandbits
        while len(words) < count:
            # As `randrange(5000)`, without the calls around it: most of the dice roll here.
            number = bits(13)
            if number < 5000:
                words.append(f"w{number}")
        return " ".join(words)

    def texts(self, dice: Random) -> tuple[str, ...]:
        """Some texts for one request."""
        return tuple(self.words(dice) for _ in range(dice.randint(*self._traffic.inputs)))

    def new_id(self) -> RequestId:
        """Name one more request."""
        self._requests += 1
        return RequestId(f"r{self._requests}")

    def name(self, dice: Random, tenant: TenantId | None) -> tuple[TenantId, str]:
        """Who talks, and about what."""
        if tenant is not None:
            return tenant, f"flood {dice.random()}"
        self._conversations += 1
        number = dice.randrange(self._traffic.tenants)
        return TenantId(f"key:{number}"), f"conversation {self._conversations}"

    def class_(self, dice: Random) -> ServiceClass:
        """Which class a conversation is of."""
        traffic = self._traffic
        if not traffic.agent + traffic.bulk:
            return "interactive"
        roll = dice.random()
        if roll < traffic.agent:
            return "agent"
        return "bulk" if roll < traffic.agent + traffic.bulk else "interactive"

    def beginning(self, dice: Random) -> str:
        """The system prompt of a new conversation."""
        if not self._traffic.prefixes:
            return "You are helpful."
        which = dice.randrange(self._traffic.prefixes)
        return " ".join(f"s{which}w{n}" for n in range(self._traffic.prefix_words))

    def most(self, dice: Random) -> int:
        """How long an answer may become."""
        most = dice.randint(*self._traffic.max_tokens)
        if self._traffic.long_answers and dice.random() < self._traffic.long_answers:
            most *= 10
        return most

    def _account(self, tenant: TenantId) -> Account | None:
        """The account of a tenant's key, where keys are limited."""
        return Account(tenant, tenant, self._allowance) if self._allowance.is_limited else None

    def _insists(self, talk: Speaker) -> bool:
        """Whether a turn goes home or nowhere."""
        if not self._traffic.insist or talk.turn < 2:
            return False
        return talk.dice.random() < self._traffic.insist

    def send(self, talk: Speaker, manners: Manners) -> Trace:
        """Put a turn's request on its way."""
        rid, most = self.new_id(), talk.most()
        messages = tuple(talk.messages)
        request = GenerateRequest(ModelId(talk.model), ChatPrompt(messages), max_tokens=most)
        terms = Terms(
            rid,
            talk.tenant,
            chain(talk.tenant, request.model, messages),
            timeout_s=manners.timeout_s,
            prompt_bytes=sum(len(message.content) for message in messages),
            max_tokens=most,
            class_=talk.class_,
            on_loss="replay" if manners.replays else "error",
            account=self._account(talk.tenant),
        )
        insists = self._insists(talk)
        terms = msgspec.structs.replace(terms, require=insists, has_past=insists)
        request = msgspec.structs.replace(request, return_tokens=manners.replays)
        oracle = tuple(answer_of(request))
        trace = Trace(rid, request.model, talk.turn, self._world.now, oracle)
        trace.tenant, trace.class_ = talk.tenant, talk.class_
        trace.replays, trace.prompt_tokens = manners.replays, len(prompt_tokens(request))
        trace.insists, trace.streamed = insists, manners.streamed
        trace.conversation, trace.asked = talk.key, messages[-1].content
        asked = Asked(trace, request, terms, messages, manners, lambda: talk.answered(trace))
        keyed = repeats.plan(self._traffic, talk.dice)
        claim = None
        if keyed is not None:
            claim = repeats.claim_of(keyed, talk.tenant, rid, rid)
            for after_s, how in keyed.again:
                self.thinking += 1
                self._world.at(after_s, partial(self._again, asked, keyed, how))
        self._front.process.do(lambda: self._ask(asked, claim, talk.dice))
        return trace

    def put(self, asked: Asked) -> None:
        """Put a request that is no turn of a conversation on its way."""
        self._front.process.do(lambda: self._ask(asked, None, None))

    def _again(self, asked: Asked, keyed: repeats.Plan, how: repeats.How) -> None:
        """Send the same request again, or something else under the same key."""
        self.thinking -= 1
        first, rid = asked.trace, self.new_id()
        tenant = TenantId("key:stranger") if how == "stranger" else asked.terms.tenant
        trace = Trace(rid, first.model, 1, self._world.now, first.oracle)
        trace.tenant, trace.class_ = tenant, first.class_
        trace.prompt_tokens = first.prompt_tokens
        body = RequestId(f"{first.request} changed") if how == "changed" else first.request
        claim = repeats.claim_of(keyed, tenant, body, rid)
        hashes = chain(tenant, asked.request.model, asked.messages)
        terms = msgspec.structs.replace(
            asked.terms,
            request_id=rid,
            tenant=tenant,
            chain=hashes,
            timeout_s=None,
            account=self._account(tenant),
        )
        twin = msgspec.structs.replace(
            asked, trace=trace, terms=terms, manners=Manners(), ended=nothing
        )
        self._front.process.do(lambda: self._ask(twin, claim, None))

    def _ask(self, asked: Asked, claim: Claim | None, dice: Random | None) -> None:
        trace, terms = asked.trace, asked.terms
        if claim is not None and not self._repeats.admits(claim, trace):
            return
        trace.arrived_s = trace.came_s = self._world.now
        self._ledger.arrived(trace)
        self._world.log(f"ask {trace.request} {trace.model} turn {trace.turn}")
        reader = self._reader(asked, claim, dice)
        if asked.enter is not None:
            asked.enter(reader)
        elif trace.conversation is None:
            self._front.ask(asked.request, terms, reader, streamed=asked.manners.streamed)
        else:
            self._front.say(ConversationKey(trace.conversation), asked.request, terms, reader)

    def _reader(self, asked: Asked, claim: Claim | None, dice: Random | None) -> Reader:
        """The connection of a request; what its end brings about."""
        trace, world, front = asked.trace, self._world, self._front

        def ended() -> None:
            if claim is not None:
                self._repeats.ended(claim, trace)
            asked.ended()

        travels = (
            wanderers.journey(self._traffic, dice) if dice and asked.manners.streamed else None
        )
        if travels is None:
            client = Client(world, front, trace.request, asked.manners)
            client.on_ended = ended
            return client
        limits = self._reattach
        reel = wanderers.Reel(
            world, front, trace.request, self._logs(limits.max_s, limits.log_bytes)
        )
        reel.on_ended = ended
        wanderers.Wanderer(world, front, trace, reel).travel(travels)
        return reel


class Conversation:
    """One client's history, sent again whole with every turn."""

    def __init__(
        self,
        workload: Workload,
        dice: Random,
        model: str,
        turns: int,
        tenant: TenantId | None = None,
    ) -> None:
        self._workload = workload
        self.dice = dice
        self._turns = turns
        self._last: RequestId | None = None
        self.model = model
        self.turn = 0
        self.tenant, about = workload.name(dice, tenant)
        self.class_ = workload.class_(dice)
        self.key = workload.key(dice, self.tenant, about) if tenant is None else None
        self.messages = [Message("system", workload.beginning(dice)), Message("user", about)]

    def next(self, manners: Manners) -> None:
        """Ask the next question."""
        self.turn += 1
        if self.key is not None:
            self._say(manners)
            return
        question = self.messages.pop()
        self.messages.append(
            Message("user", f"{question.content} {self._workload.words(self.dice)}")
        )
        trace = self._workload.send(self, manners)
        trace.previous, self._last = self._last, trace.request

    def _say(self, manners: Manners) -> None:
        """Say something in a named conversation, and perhaps not wait for the answer."""
        self.messages = [Message("user", f"turn {self.turn} {self._workload.words(self.dice)}")]
        trace = self._workload.send(self, manners)
        if self.turn < self._turns and self._workload.hasty(self):
            self._last = trace.request

    def most(self) -> int:
        """How long the next answer may become."""
        return self._workload.most(self.dice)

    def answered(self, trace: Trace) -> None:
        """The turn has ended; go on if it went well."""
        if self.key is not None:
            # Whoever was hasty has said the next thing already.
            if self._last != trace.request and self.turn < self._turns:
                self._workload.think(self)
            return
        complete = any(kind == "complete" for kind, _ in trace.endings)
        if not complete or self.turn >= self._turns:
            return
        self.messages += [Message("assistant", trace.text.strip()), Message("user", "")]
        self._workload.think(self)
