"""MACHINE: how fast each node is with each model, learned from what it did, and how long texts are.

Everything comes from events that the coordinator hears anyway: a prompt's tokens when its slot is
taken, its first token, its usage at the end. A node that has not been seen often enough, or not for
a while, has no figures: whoever decides falls back to load, which sends work there and teaches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roost.core.ids import ModelId, NodeId
from roost.core.request import Terms
from roost.fleet.settings import FleetSettings

_NEWEST = 0.2
_LEAST_PREFILL = 8
_TOKENS_PER_BYTE = 0.3
_ANSWER_TOKENS = 128.0
PLACES = 4096
"""Most pairs of node and model that are remembered; the ones learned longest ago go first."""


@dataclass(slots=True)
class Mean:
    """A running mean: the first few values count alike, later ones fade."""

    value: float = 0.0
    count: int = 0

    def note(self, value: float, newest: float = _NEWEST) -> None:
        """One more value, which counts for a share of `newest` at least."""
        self.count += 1
        self.value += (value - self.value) * max(1 / self.count, newest)


@dataclass(slots=True)
class Place:
    """What one node did with one model: seconds per token, decode by streams at a time."""

    prefill: Mean = field(default_factory=Mean)
    decode: dict[int, Mean] = field(default_factory=dict)
    decoded: int = 0
    last_s: float = 0.0

    def decode_s(self, streams: int) -> float:
        """Seconds per token with so many streams; the nearest number seen where it was not."""
        exact = self.decode.get(streams)
        if exact is not None:
            return exact.value
        nearest = min(self.decode, key=lambda seen: abs(seen - streams), default=None)
        return 0.0 if nearest is None else self.decode[nearest].value


class TokenRate:
    """Tokens per byte of text and tokens per answer, for one model."""

    def __init__(self) -> None:
        self._per_byte = Mean()
        self._answer = Mean()

    def prompt(self, terms: Terms) -> int:
        """How many tokens this prompt has: as told, or estimated from its bytes; 0 is unknown."""
        if terms.prompt_tokens or not terms.prompt_bytes:
            return terms.prompt_tokens
        rate = self._per_byte.value if self._per_byte.count else _TOKENS_PER_BYTE
        return round(terms.prompt_bytes * rate) or 1

    def answer(self, terms: Terms) -> int:
        """How many tokens its answer will probably have."""
        usual = self._answer.value if self._answer.count else _ANSWER_TOKENS
        most = terms.max_tokens
        return (round(usual) if most is None or usual < most else most) or 1

    def note_prompt(self, terms: Terms, tokens: int) -> None:
        """A prompt turned out to have so many tokens."""
        if terms.prompt_bytes > 0 and tokens > 0:
            self._per_byte.note(tokens / terms.prompt_bytes)

    def note_answer(self, tokens: int) -> None:
        """An answer had so many tokens."""
        self._answer.note(tokens)


class Pace:
    """Everything learned about every node and model."""

    def __init__(self, settings: FleetSettings) -> None:
        self._settings = settings
        self._places: dict[tuple[NodeId, ModelId], Place] = {}
        self._lengths: dict[ModelId, TokenRate] = {}

    def __len__(self) -> int:
        return len(self._places)

    def lengths(self, model: ModelId) -> TokenRate:
        """The model's lengths, as known so far."""
        known = self._lengths.get(model)
        return known if known is not None else TokenRate()

    def learn_lengths(self, model: ModelId) -> TokenRate:
        """The model's lengths, to be noted in; only for models that nodes really run."""
        return self._lengths.setdefault(model, TokenRate())

    def sure(self, node: NodeId, model: ModelId, now: float) -> Place | None:
        """What is known of this place; None if too little or too old."""
        place = self._places.get((node, model))
        if place is None or now >= place.last_s + self._settings.pace_ttl_s:
            return None
        least = self._settings.pace_least
        return place if place.prefill.count >= least and place.decoded >= least else None

    def note_prefill(
        self, node: NodeId, model: ModelId, tokens: int, seconds: float, now: float
    ) -> None:
        """The node computed so many prompt tokens in this time; a few tell nothing."""
        if tokens >= _LEAST_PREFILL:
            self._place(node, model, now).prefill.note(seconds / tokens)

    def note_decode(
        self, node: NodeId, model: ModelId, tokens: int, seconds: float, streams: int, now: float
    ) -> None:
        """The node said so many tokens after the first in this time, with `streams` at once."""
        if tokens > 0:
            place = self._place(node, model, now)
            place.decoded += 1
            place.decode.setdefault(streams, Mean()).note(seconds / tokens)

    def joined(self, node: NodeId) -> None:
        """The node began anew, maybe on other hardware: forget what it could."""
        for key in [key for key in self._places if key[0] == node]:
            del self._places[key]

    def _place(self, node: NodeId, model: ModelId, now: float) -> Place:
        place = self._places.pop((node, model), None) or Place()
        self._places[node, model] = place
        place.last_s = now
        if len(self._places) > PLACES:
            del self._places[next(iter(self._places))]
        return place
