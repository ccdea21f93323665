"""MACHINE: what can be asked of each model, by the claims of whoever serves it.

A request that nobody who has its model can do is refused before it waits or loads anything, in
words that name a model that can. Where one node does not say what it can do, nobody is refused: it
may well be able to.
"""

from __future__ import annotations

from typing import NamedTuple

from roost.core.ids import ModelId, NodeId
from roost.core.request import ChatPrompt, GenerateRequest, Grammar, JsonAny, JsonSchema
from roost.core.snapshots import ModelOffer, NodeStatus
from roost.errors import Failure

NAMED_MAX = 5
"""How many models a refusal names."""


class Need(NamedTuple):
    """What only some backends can do: a capability, the field that asks for it, a word for it."""

    capability: str
    param: str
    word: str


CHAT = Need("chat", "messages", "chats")
COMPLETION = Need("completion", "prompt", "completions of raw prompts")
LOGPROBS = Need("logprobs", "logprobs", "log probabilities")
BIASES = Need("logit_bias", "logit_bias", "biases of tokens")
GRAMMAR = Need("grammar", "grammar", "grammars")
JSON = Need("json_schema", "response_format", "answers in JSON")


def needs_of(request: GenerateRequest) -> tuple[Need, ...]:
    """Say what a request needs beyond what every backend does."""
    held_to = request.constraint
    asked = (
        (CHAT, isinstance(request.prompt, ChatPrompt)),
        (COMPLETION, not isinstance(request.prompt, ChatPrompt)),
        (LOGPROBS, request.top_logprobs is not None),
        (BIASES, bool(request.sampling.logit_bias)),
        (GRAMMAR, isinstance(held_to, Grammar)),
        (JSON, isinstance(held_to, (JsonAny, JsonSchema))),
    )
    return tuple(need for need, wanted in asked if wanted)


class _Ability(NamedTuple):
    """What one node can do with one model; `claims` None where it does not say."""

    backend: str
    claims: frozenset[str] | None
    has_template: bool


class Abilities:
    """Kept by the reports of nodes that are linked."""

    def __init__(self) -> None:
        self._nodes: dict[NodeId, dict[ModelId, _Ability]] = {}

    def on_report(self, node: NodeId, status: NodeStatus) -> None:
        """A node has said what it has."""
        backends = status.about.backends if status.about is not None else ()
        claims = {one.name: frozenset(one.claims) for one in backends}
        self._nodes[node] = {
            offer.model: _ability(offer, claims.get(offer.backend)) for offer in status.models
        }

    def on_left(self, node: NodeId) -> None:
        """A node has gone."""
        self._nodes.pop(node, None)

    def refusal(self, request: GenerateRequest) -> Failure | None:
        """Say why nobody can do what is asked, and who could; None where somebody may."""
        needs = needs_of(request)
        wanted = {need.capability for need in needs}
        lacking: list[tuple[Need, _Ability]] = []
        for models in self._nodes.values():
            ability = models.get(request.model)
            if ability is None:
                continue
            if ability.claims is None or wanted <= ability.claims:
                return None
            missing = next(need for need in needs if need.capability not in ability.claims)
            lacking.append((missing, ability))
        if not lacking:
            # Nobody has the model at all, which others say better.
            return None
        need, ability = lacking[0]
        return _refused(request.model, need, ability, self._able(wanted))

    def _able(self, wanted: set[str]) -> list[ModelId]:
        """List models of which all of that can be asked, by name."""
        found = {
            model
            for models in self._nodes.values()
            for model, ability in models.items()
            if ability.claims is not None and wanted <= ability.claims
        }
        return sorted(found)[:NAMED_MAX]


def _ability(offer: ModelOffer, claims: frozenset[str] | None) -> _Ability:
    if claims is not None and not offer.has_chat:
        claims -= {CHAT.capability}
    return _Ability(offer.backend, claims, offer.has_chat)


def _refused(model: ModelId, need: Need, ability: _Ability, able: list[ModelId]) -> Failure:
    if need is CHAT and not ability.has_template:
        why = f"The model `{model}` has no chat template: it can complete text, but it cannot chat."
    else:
        why = f"The model `{model}` runs on {ability.backend}, which does no {need.word}."
    if able:
        names = ", ".join(f"`{one}`" for one in able)
        todo = f"Models here that can: {names}."
    else:
        todo = "No model here can."
    return Failure("unsupported", f"{why} {todo}", need.param)
