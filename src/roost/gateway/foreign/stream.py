"""MACHINE: one request on a worker of system 1, from Open to Released.

    prefill ──▶ decode ──▶ ending ──▶ flushing ──▶ (released)
       │           │          │           ▲
       ╰───────────┴──────────┴─▶ leaving ╯

`ending` has heard the end and waits for the connection to close; `leaving` was cancelled or has
failed, and its session is being removed, so that the worker is known to do nothing for it any more;
`flushing` holds nothing but events that the gateway has not granted credit for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from roost.core.events import Delta, StreamEvent, merge_deltas
from roost.core.ids import StreamId
from roost.core.request import ChatPrompt, Message
from roost.dialects.system1.worker import Mode
from roost.dialects.system1.worker_calls import Prefilled
from roost.gateway.foreign.effects import ForeignEffect, Pause, Resume, Say
from roost.gateway.foreign.sessions import ForeignSession
from roost.wire.messages import Events, Open, Released

Phase: TypeAlias = Literal["prefill", "decode", "ending", "leaving", "flushing"]
Stage: TypeAlias = Literal["waiting", "prefill", "decode", "done"]


@dataclass(slots=True, eq=False)
class ForeignStream:
    """One request; `so_far` is the hash of everything said, this turn's message included.

    `calling` says that a call runs for it, `due_s` when it has taken too long. `tokens` counts
    what the worker has said, `told` the events that went to the gateway. `cancelled_s` is when the
    gateway lost interest.
    """

    opened: Open
    messages: tuple[Message, ...]
    so_far: bytes
    session: ForeignSession
    slot: int
    mode: Mode
    credit: int
    phase: Phase = "prefill"
    calling: bool = True
    due_s: float = 0.0
    prefilled: Prefilled | None = None
    begun: bool = False
    text: list[str] = field(default_factory=list)
    tokens: int = 0
    told: int = 0
    pending: list[StreamEvent] = field(default_factory=list)
    held: int = 0
    paused: bool = False
    cancelled_s: float | None = None
    stage: Stage = "done"

    @property
    def id(self) -> StreamId:
        """Its number on the link."""
        return self.opened.stream

    @property
    def mute(self) -> bool:
        """Whether nobody wants an answer: a past is to be where its next turn will be."""
        return self.messages[-1].role == "assistant"

    @property
    def answer(self) -> str:
        """Everything the worker has said."""
        return "".join(self.text)

    def hear(self, text: str) -> None:
        """The worker has said more."""
        self.tokens += 1
        self.text.append(text)
        self.add(Delta(text))

    def add(self, event: StreamEvent) -> None:
        """Have one more event for the gateway; neighbouring pieces of text become one."""
        last = self.pending[-1] if self.pending else None
        if isinstance(last, Delta) and isinstance(event, Delta):
            self.pending[-1] = merge_deltas(last, event)
        else:
            self.pending.append(event)
        self.held += isinstance(event, Delta)

    def flush(self, held_max: int) -> list[ForeignEffect]:
        """Send what there is credit for; stop reading where too much is held, until it is not."""
        effects: list[ForeignEffect] = []
        if self.pending and self.credit:
            self.credit -= 1
            effects.append(Say(Events(self.id, self.told, tuple(self.pending))))
            self.told += len(self.pending)
            self.pending.clear()
            self.held = 0
        full = self.held >= held_max
        if full != self.paused and self.calling and self.phase == "decode":
            self.paused = full
            effects.append(Pause(self.id) if full else Resume(self.id))
        return effects

    def released(self, now: float) -> Released:
        """Say that nothing of it is left."""
        freed_s = None if self.cancelled_s is None else max(0.0, now - self.cancelled_s)
        return Released(self.id, self.stage, freed_s)


def turns_of(opened: Open) -> tuple[Message, ...]:
    """Give the messages of a request that a worker can serve; nothing for any other.

    A past without a new message is one that is handed over, which asks for one token.
    """
    request = opened.request
    prompt = request.prompt
    plain = request.top_logprobs is None and request.continuation is None
    if not isinstance(prompt, ChatPrompt) or not plain or request.ignore_eos:
        return ()
    if request.constraint is not None or request.sampling.logit_bias or not _is_talk(prompt):
        return ()
    last = prompt.messages[-1].role
    handed = last == "assistant" and request.max_tokens == 1
    return prompt.messages if last == "user" or handed else ()


def _is_talk(prompt: ChatPrompt) -> bool:
    """Whether nothing but words was said and is asked for: no tools, no beginning of an answer."""
    tools = any(message.calls or message.role == "tool" for message in prompt.messages)
    return prompt.offer is None and not prompt.continues and not tools
