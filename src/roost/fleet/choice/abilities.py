"""MACHINE: what can be asked of each model, by the claims of whoever serves it.

A request that nobody who has its model can do is refused before it waits or loads anything, in
words that name a model that can. Where one node does not say what it can do, nobody is refused: it
may well be able to. What a model is for (its `mode`) every node says, or it knows but one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from roost.core import vectors
from roost.core.engine import Mode, lack
from roost.core.ids import ModelId, NodeId
from roost.core.request import (
    ChatPrompt,
    EmbedPrompt,
    GenerateRequest,
    Grammar,
    JsonAny,
    JsonSchema,
    RankPrompt,
)
from roost.core.snapshots import ModelOffer, NodeStatus
from roost.errors import Failure

NAMED_MAX = 5
"""How many models a refusal names."""


class Need(NamedTuple):
    """What only some backends can do: a capability, the field that asks for it, a word for it.

    `mode` is what a model has to be for.
    """

    capability: str
    param: str
    word: str
    mode: Mode = "generate"


EMBEDDINGS = Need("embeddings", "model", "vectors of texts", "embed")
RERANK = Need("rerank", "model", "scores of documents", "rank")
CHAT = Need("chat", "messages", "chats")
COMPLETION = Need("completion", "prompt", "completions of raw prompts")
LOGPROBS = Need("logprobs", "logprobs", "log probabilities")
BIASES = Need("logit_bias", "logit_bias", "biases of tokens")
GRAMMAR = Need("grammar", "grammar", "grammars")
JSON = Need("json_schema", "response_format", "answers in JSON")
COUNTS = Need("exact_token_count", "messages", "counts of tokens")


def needs_of(request: GenerateRequest) -> tuple[Need, ...]:
    """Say what a request needs beyond what every backend does."""
    if isinstance(request.prompt, EmbedPrompt):
        return (EMBEDDINGS,)
    if isinstance(request.prompt, RankPrompt):
        return (RERANK,)
    held_to = request.constraint
    asked = (
        (CHAT, isinstance(request.prompt, ChatPrompt)),
        (COMPLETION, not isinstance(request.prompt, ChatPrompt)),
        (LOGPROBS, request.top_logprobs is not None),
        (BIASES, bool(request.sampling.logit_bias)),
        (GRAMMAR, isinstance(held_to, Grammar)),
        (JSON, isinstance(held_to, (JsonAny, JsonSchema))),
        (COUNTS, request.counts),
    )
    return tuple(need for need, wanted in asked if wanted)


class _Ability(NamedTuple):
    """What one node can do with one model; `claims` None where it does not say."""

    backend: str
    claims: frozenset[str] | None
    has_template: bool
    mode: Mode
    sizes: tuple[int, ...]

    def lacks(self, needs: tuple[Need, ...]) -> bool:
        """Whether it certainly cannot do all of that."""
        if any(need.mode != self.mode for need in needs):
            return True
        claims = self.claims
        return claims is not None and any(need.capability not in claims for need in needs)


class Verdict(NamedTuple):
    """Why nobody can do what is asked, None where somebody may; and who of those cannot."""

    failure: Failure | None = None
    unfit: frozenset[NodeId] = frozenset()


ANYBODY = Verdict()


class _Lack(NamedTuple):
    """What a model lacks, for which field; `able` are all that do not, by name."""

    why: str
    param: str
    able: tuple[ModelId, ...]

    def failure(self, may_use: Callable[[ModelId], bool]) -> Failure:
        """Refuse, and name only what whoever asks may use."""
        names = ", ".join(f"`{one}`" for one in [*filter(may_use, self.able)][:NAMED_MAX])
        todo = f"Models here that can: {names}." if names else "No model here can."
        return Failure("unsupported", f"{self.why} {todo}", self.param)


def anybody_may(_model: ModelId) -> bool:
    """Nobody is kept from any model."""
    return True


class Abilities:
    """Kept by the reports of nodes that are linked."""

    def __init__(self) -> None:
        self._nodes: dict[NodeId, dict[ModelId, _Ability]] = {}
        # Reports come every second and hardly ever say anything new of this.
        self._judged: dict[tuple[ModelId, tuple[Need, ...]], Verdict | _Lack] = {}

    def on_report(self, node: NodeId, status: NodeStatus) -> None:
        """A node has said what it has."""
        backends = status.about.backends if status.about is not None else ()
        claims = {one.name: frozenset(one.claims) for one in backends}
        found = {offer.model: _ability(offer, claims.get(offer.backend)) for offer in status.models}
        if self._nodes.get(node) != found:
            self._nodes[node] = found
            self._judged.clear()

    def on_left(self, node: NodeId) -> None:
        """A node has gone."""
        if self._nodes.pop(node, None) is not None:
            self._judged.clear()

    def judge(
        self, request: GenerateRequest, may_use: Callable[[ModelId], bool] = anybody_may
    ) -> Verdict:
        """Say whether somebody can do what is asked; of a model that nobody has others say more.

        Of the models that can, a refusal names those that whoever asks `may_use`.
        """
        needs = needs_of(request)
        asked = request.model, needs
        judged = self._judged.get(asked)
        if judged is None:
            having = self._having(request.model)
            if not having:
                # Not kept: the names that strangers may think of have no end.
                return ANYBODY
            judged = self._judged[asked] = self._verdict(request.model, needs, having)
        if isinstance(judged, _Lack):
            return Verdict(judged.failure(may_use))
        prompt = request.prompt
        if isinstance(prompt, EmbedPrompt) and prompt.dimensions:
            return self._sized(request.model, prompt.dimensions, judged)
        return judged

    def _having(self, model: ModelId) -> list[tuple[NodeId, _Ability]]:
        return [
            (node, ability)
            for node, models in self._nodes.items()
            if (ability := models.get(model)) is not None
        ]

    def _sized(self, model: ModelId, dimensions: int, judged: Verdict) -> Verdict:
        """Leave out who makes vectors, but none of this size."""
        refused = {
            node: failure
            for node, ability in self._having(model)
            if node not in judged.unfit
            and (failure := vectors.why_not(dimensions, ability.sizes)) is not None
        }
        unfit = judged.unfit | refused.keys()
        if refused and len(unfit) == len(self._having(model)):
            return Verdict(next(iter(refused.values())))
        return Verdict(unfit=unfit)

    def _verdict(
        self, model: ModelId, needs: tuple[Need, ...], having: list[tuple[NodeId, _Ability]]
    ) -> Verdict | _Lack:
        lacking = [(node, ability) for node, ability in having if ability.lacks(needs)]
        if len(lacking) < len(having):
            return Verdict(unfit=frozenset(node for node, _ in lacking))
        _, ability = lacking[0]
        claims = ability.claims or frozenset()
        missing = next((need for need in needs if need.capability not in claims), needs[0])
        return _lack(model, missing, ability, self._able(needs))

    def _able(self, needs: tuple[Need, ...]) -> tuple[ModelId, ...]:
        """List models of which all of that can be asked, by name."""
        found = {
            model
            for models in self._nodes.values()
            for model, ability in models.items()
            if ability.claims is not None and not ability.lacks(needs)
        }
        return tuple(sorted(found))


def _ability(offer: ModelOffer, claims: frozenset[str] | None) -> _Ability:
    if claims is not None and not offer.has_chat:
        claims -= {CHAT.capability}
    return _Ability(offer.backend, claims, offer.has_chat, offer.mode, offer.vector_sizes)


def _lack(model: ModelId, need: Need, ability: _Ability, able: tuple[ModelId, ...]) -> _Lack:
    param = need.param
    if ability.mode != need.mode:
        what = lack(ability.mode, need.mode)
        why, param = f"The model `{model}` {what} (its `mode` is {ability.mode}).", "model"
    elif need is CHAT and not ability.has_template:
        why = f"The model `{model}` has no chat template: it can complete text, but it cannot chat."
    else:
        why = f"The model `{model}` runs on {ability.backend}, which does no {need.word}."
    return _Lack(why, param, able)
