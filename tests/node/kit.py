"""What several tests of the node need: offers, requests, and an agent with short hands."""

from __future__ import annotations

from roost.backends.base import Prepared, SlotUse
from roost.core.events import Delta, Finished, Started, StreamEvent, Usage
from roost.core.ids import ModelId, RequestId, RuntimeId, StreamId, TenantId
from roost.core.request import GenerateRequest, TextPrompt
from roost.core.snapshots import ModelOffer, NodeStatus
from roost.errors import Failure
from roost.node.agent import Agent
from roost.node.effects import Effect, Load, Look, Prepare, Run, Send, StreamKey
from roost.node.settings import AgentSettings
from roost.wire.messages import Cancel, Credit, Events, FromNode, Open, Refused, Status

MODEL = ModelId("m")
OTHER = ModelId("other")
LINK = 1
SETTINGS = AgentSettings(backend="tiny")


def offer(model: ModelId = MODEL, slots: int = 2) -> ModelOffer:
    """A model with this many slots."""
    return ModelOffer(model, slots, ctx=4096)


def request(model: ModelId = MODEL) -> GenerateRequest:
    """A generation of that model; what it asks is irrelevant to the node's machines."""
    return GenerateRequest(model, TextPrompt("hi"))


def open_message(
    stream: int,
    *,
    model: ModelId = MODEL,
    tenant: str = "t",
    credit: int = 100,
    deadline_s: float | None = None,
) -> Open:
    """An Open with this stream number."""
    return Open(
        StreamId(stream),
        RequestId(f"r{stream}"),
        TenantId(tenant),
        request(model),
        credit,
        deadline_s,
    )


def key(stream: int, link: int = LINK) -> StreamKey:
    """The stream's name on the node."""
    return StreamKey(link, StreamId(stream))


def prepared(*tokens: int, model: ModelId = MODEL) -> Prepared:
    """A request of these prompt tokens."""
    return Prepared(request(model), tokens or (1, 2, 3), limit=100)


FIRST = RuntimeId("m#1")
SPOILT = Failure("load_failed", "the file is another one")
STARTED = Started(3, 0, 0)
FINISHED = Finished("stop", Usage(3, 0, 2))
ANSWER: tuple[StreamEvent, ...] = (Started(3, 0, 0), Delta("a"), Delta("b"), FINISHED)


class Node:
    """An agent, its clock, and everything it has asked for."""

    def __init__(self, settings: AgentSettings = SETTINGS, *offers: ModelOffer) -> None:
        self.now = 100.0
        self.spoilt: set[ModelId] = set()
        self.agent = Agent(settings, offers or (offer(),))
        self.effects: list[Effect] = []
        self.all: list[Effect] = []
        self.take(self.agent.on_link_up(LINK, self.now))
        self.fresh()

    def take(self, effects: list[Effect]) -> list[Effect]:
        """Remember effects and hand them on; models that are looked at are sound, or `spoilt`."""
        self.effects += effects
        self.all += effects
        for look in [effect for effect in effects if isinstance(effect, Look)]:
            failure = SPOILT if look.model in self.spoilt else None
            effects = [*effects, *self.take(self.agent.on_looked(look.model, failure, self.now))]
        return effects

    def fresh(self) -> list[Effect]:
        """Effects since the last time, without reports, which come when they come."""
        fresh, self.effects = self.effects, []
        return [e for e in fresh if not (isinstance(e, Send) and isinstance(e.message, Status))]

    def said(self, stream: int | None = None, link: int = LINK) -> list[FromNode]:
        """All that was ever said on a link about this stream (or about streams at all)."""
        sends = [e.message for e in self.all if isinstance(e, Send) and e.link == link]
        about = [m for m in sends if getattr(m, "stream", None) is not None]
        return [m for m in about if stream is None or getattr(m, "stream", None) == stream]

    def events(self, stream: int) -> list[StreamEvent]:
        """All events that were ever sent of this stream."""
        messages = [m for m in self.said(stream) if isinstance(m, Events)]
        return [event for message in messages for event in message.events]

    def statuses(self) -> list[NodeStatus]:
        """All reports that were ever sent."""
        sends = [e.message for e in self.all if isinstance(e, Send)]
        return [m.status for m in sends if isinstance(m, Status)]

    def open(self, stream: int, **how: object) -> list[Effect]:
        """A gateway opens a stream; `how` as for `open_message`."""
        message = open_message(stream, **how)  # type: ignore[arg-type]
        self.take(self.agent.on_message(LINK, message, self.now))
        return self.fresh()

    def cancel(self, stream: int) -> list[Effect]:
        """A gateway cancels a stream."""
        self.take(self.agent.on_message(LINK, Cancel(StreamId(stream)), self.now))
        return self.fresh()

    def credit(self, stream: int, messages: int) -> list[Effect]:
        """A gateway grants credit."""
        self.take(self.agent.on_message(LINK, Credit(StreamId(stream), messages), self.now))
        return self.fresh()

    def loaded(self, runtime: str = "m#1") -> list[Effect]:
        """A load succeeds."""
        self.take(self.agent.on_loaded(RuntimeId(runtime), self.now))
        return self.fresh()

    def load_failed(self, runtime: str, failure: Failure) -> list[Effect]:
        """A load fails."""
        self.take(self.agent.on_load_failed(RuntimeId(runtime), failure, self.now))
        return self.fresh()

    def gone(self, runtime: str = "m#1") -> list[Effect]:
        """A runtime ends."""
        self.take(self.agent.on_runtime_gone(RuntimeId(runtime), self.now))
        return self.fresh()

    def prepared(self, stream: int, *tokens: int) -> list[Effect]:
        """A request has been prepared."""
        self.take(self.agent.on_prepared(key(stream), prepared(*tokens), self.now))
        return self.fresh()

    def event(self, stream: int, *events: StreamEvent) -> list[Effect]:
        """The backend produces events."""
        for event in events:
            self.take(self.agent.on_event(key(stream), event, self.now))
        return self.fresh()

    def closed(self, stream: int, failure: Failure | None = None) -> list[Effect]:
        """The backend's block has been left."""
        self.take(self.agent.on_closed(key(stream), failure, self.now))
        return self.fresh()

    def tick(self, seconds: float = 0.0) -> list[Effect]:
        """Time passes while the node is awake: there is a tick at least every second."""
        until = self.now + seconds
        while self.now < until - 1.0:
            self.now += 1.0
            self.take(self.agent.on_tick(self.now))
        return self.sleep(until - self.now)

    def sleep(self, seconds: float) -> list[Effect]:
        """Time passes without a tick, then there is one."""
        self.now += seconds
        self.take(self.agent.on_tick(self.now))
        return self.fresh()

    def run(self, stream: int, *tokens: int, **how: object) -> SlotUse:
        """Bring a stream to a slot, loading its runtime if need be."""
        for effect in self.open(stream, **how):
            if isinstance(effect, Load):
                self.loaded(effect.runtime)
        runs = [e for e in self.prepared(stream, *tokens) if isinstance(e, Run)]
        assert len(runs) == 1
        return runs[0].use

    def serve(self, stream: int, *tokens: int, **how: object) -> SlotUse:
        """Answer a whole request."""
        use = self.run(stream, *tokens, **how)
        self.event(stream, *ANSWER)
        self.closed(stream)
        return use

    def is_at_rest(self) -> bool:
        """Whether nothing is held: no stream, and no slot of any runtime."""
        statistics, status = self.agent.statistics(), self.agent.status()
        busy = [s for r in status.runtimes for s in r.slots if s.busy]
        return statistics.live == status.in_flight == len(busy) == 0


def sent(*messages: FromNode) -> list[Effect]:
    """The effects that send these messages on the first link."""
    return [Send(LINK, message) for message in messages]


def reason_of(message: FromNode) -> str:
    """Why a stream was refused; the message has to be a refusal."""
    assert isinstance(message, Refused)
    return message.failure.reason


def prepares(effects: list[Effect]) -> list[StreamKey]:
    """Whose preparation was asked for."""
    return [e.key for e in effects if isinstance(e, Prepare)]
