"""DECIDER: what is asked: the words of every request, before the first is sent.

Words are common ones, about one token each in the vocabularies of small models. Prompts differ in
their first words unless something is to be shared: a server that finds a beginning again computes
less, and a benchmark has to say so or prevent it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from roost.bench.load.traces import BLOCK_TOKENS, Traced

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

WORDS = (
    *("river", "stone", "cloud", "tree", "bird", "house", "light", "road", "field", "water"),
    *("night", "morning", "winter", "summer", "garden", "window", "bread", "paper", "music"),
)


DiceOf = Callable[[str], "random.Random"]
"""Makes dice that fall the same way for the same name."""


class Ask(msgspec.Struct, frozen=True):
    """One request: which model, the turns to be said one after the other, and their limit.

    Each turn is sent with the turns and answers before it. `system` is said first, "" for nothing.
    """

    model: str
    turns: tuple[str, ...]
    max_tokens: int
    system: str = ""


class Workload(msgspec.Struct, frozen=True):
    """What is asked for, over and over.

    `prompt` is said as it is, or is "" for `words` words that differ each time. `models` are taken
    in turn. One of `prefixes` beginnings of `prefix_words` words is shared by each request.
    """

    models: tuple[str, ...]
    prompt: str = ""
    words: int = 40
    turns: int = 1
    max_tokens: int = 64
    prefixes: int = 0
    prefix_words: int = 0
    seed: int = 0

    def ask(self, number: int, dice_of: DiceOf) -> Ask:
        """Write request `number`; the same number is the same request."""
        dice = dice_of(f"{self.seed} {number}")
        turns = tuple(self._said(dice, turn) for turn in range(self.turns))
        system = ""
        if self.prefixes:
            prefix = dice.randrange(self.prefixes)
            system = words(dice_of(f"{self.seed} prefix {prefix}"), self.prefix_words)
        return Ask(self.models[number % len(self.models)], turns, self.max_tokens, system)

    def _said(self, dice: random.Random, turn: int) -> str:
        if self.prompt and turn == 0:
            return self.prompt
        return f"{dice.getrandbits(32):08x} {words(dice, self.words)}"


def words(dice: random.Random, how_many: int) -> str:
    """Draw words."""
    return " ".join(dice.choice(WORDS) for _ in range(how_many))


def traced(one: Traced, model: str, length: float, dice_of: DiceOf) -> Ask:
    """Write a request as long as a traced one; `length` is what its lengths were scaled by.

    Blocks with the same id have the same words. What lies behind the blocks that a trace tells of
    differs each time.
    """
    block_words = max(1, round(BLOCK_TOKENS * length))
    parts = [words(dice_of(f"block {block}"), block_words) for block in one.blocks]
    said = " ".join(parts).split(" ")[: one.prompt_tokens] if parts else []
    missing = one.prompt_tokens - len(said)
    dice = dice_of(f"{one.due_s} {one.prompt_tokens} {one.blocks[-1:]}")
    said += words(dice, missing).split(" ") if missing else []
    return Ask(model, (" ".join(said),), one.answer_tokens)


def texts(asks: Sequence[Ask]) -> str:
    """Return all that is asked as one text; two runs that differ in it do not compare."""
    return "\n".join("\n".join((ask.model, ask.system, *ask.turns)) for ask in asks)
