"""DECIDER: what is asked at /roost/v1/prefill and /roost/v1/decode, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import msgspec

from roost.core.events import Delta, Finished, StreamEvent
from roost.core.ids import ModelId
from roost.core.request import ChatPrompt, Message, Prompt, Sampling, TextPrompt
from roost.errors import fail
from roost.gateway.control_words import LIMITS, answer
from roost.gateway.desk.bodies import read_json

PROMPT_MAX_BYTES = 512 * 1024
MESSAGES_MAX = 256
STOPS_MAX = 16
STOP_MAX_BYTES = 1024
SECRET_MAX_CHARS = LIMITS["max_handoff_bytes"]
PREFILL_EXAMPLE = '{"model_id": "NAME", "input": "…"}'
DECODE_EXAMPLE = '{"handoff": "…", "max_tokens": 100}'


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message."""

    role: Literal["system", "user", "assistant"]
    content: str


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of the state: nothing that has a name is kept, and what is there is reused."""

    mode: Literal["ephemeral", "auto"] = "auto"
    reuse: Literal["prefer"] = "prefer"


class PrefillAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prompt to be computed ahead."""

    model_id: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    input: str | list[Said]
    policy: Policy = Policy()
    allow_experimental: bool = False

    @property
    def prompt(self) -> Prompt:
        """What the model is given."""
        if isinstance(self.input, str):
            return TextPrompt(self.input)
        return ChatPrompt(tuple(Message(one.role, one.content) for one in self.input))

    @property
    def size_bytes(self) -> int:
        """The length of its text."""
        if isinstance(self.input, str):
            return len(self.input.encode())
        return sum(len(one.content.encode()) for one in self.input)


class DecodeAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The one answer to a prompt that was computed ahead."""

    handoff: Annotated[str, msgspec.Meta(min_length=1, max_length=SECRET_MAX_CHARS)]
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=32_768)]
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)] | None = None
    stop: Annotated[list[str], msgspec.Meta(max_length=STOPS_MAX)] = []
    allow_experimental: bool = False

    @property
    def sampling(self) -> Sampling:
        """How its tokens are drawn."""
        return Sampling(temperature=self.temperature, top_p=self.top_p, seed=self.seed)


def read_prefill(body: bytes, aliases: Mapping[str, str]) -> tuple[ModelId, PrefillAsked]:
    """Read what is to be computed, and by which model; raises `bad_request`."""
    asked = read_json(body, PrefillAsked, PREFILL_EXAMPLE)
    if not asked.input:
        raise fail("bad_request", "'input' is empty.", param="input")
    if asked.size_bytes > PROMPT_MAX_BYTES:
        message = f"'input' has at most {PROMPT_MAX_BYTES} bytes."
        raise fail("bad_request", message, param="input")
    if not isinstance(asked.input, str) and len(asked.input) > MESSAGES_MAX:
        message = f"'input' has at most {MESSAGES_MAX} messages."
        raise fail("bad_request", message, param="input")
    return ModelId(aliases.get(asked.model_id, asked.model_id)), asked


def read_decode(body: bytes) -> DecodeAsked:
    """Read how it goes on; raises `bad_request`."""
    asked = read_json(body, DecodeAsked, DECODE_EXAMPLE)
    if any(not 0 < len(one.encode()) <= STOP_MAX_BYTES for one in asked.stop):
        message = f"Each of 'stop' has 1 to {STOP_MAX_BYTES} bytes."
        raise fail("bad_request", message, param="stop")
    return asked


class Voice:
    """Says one whole answer: `told` makes its data, of what was said and how it ended."""

    def __init__(self, request: str, told: Callable[[str, Finished], Mapping[str, object]]) -> None:
        self._request = request
        self._told = told
        self._text: list[str] = []

    def event(self, event: StreamEvent) -> bytes:
        """Take an event; the last one gives the body."""
        if isinstance(event, Delta):
            self._text.append(event.text)
        if isinstance(event, Finished):
            return answer(self._told("".join(self._text), event), self._request)
        return b""

    def roost_extra(self, facts: Mapping[str, object]) -> None:
        """Say nothing else in the body: headers have these."""
