#!/usr/bin/env python3
"""SHELL: a program in one file that answers one prompt and ends, for roost's `command_once`.

    once.py [--seconds S] [--max-tokens N] [--temperature T] [--seed N] [--ignore-eos] < PROMPT

It needs nothing but Python. Its "model" says what followed the last few words before, and takes so
many seconds for a token; put a real one in the place of `Model`. docs/runners.md has its card.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time

WORD = re.compile(r"\s*[^\W_]+|\s*\S|\s+")


class Model:
    """Words are tokens, and what comes next is what came after the same words before."""

    def __init__(self, prompt: str) -> None:
        self.words = WORD.findall(prompt) or [" "]
        self.prompt = len(self.words)

    def next(self, temperature: float, dice: random.Random) -> str:
        """Give the next word; at a temperature one of those that were there already."""
        words = self.words
        if temperature and dice.random() < temperature / 2:
            return dice.choice(words)
        for at in range(len(words) - 2, 0, -1):
            if words[at] == words[-1] and words[at + 1] != "\n":
                return words[at + 1]
        return words[len(words) % self.prompt]


def main() -> None:
    """Read, answer, and tell on standard error how many tokens there were."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ignore-eos", action="store_true")
    given = parser.parse_args()
    sys.stdin.reconfigure(encoding="utf-8", newline="")
    sys.stdout.reconfigure(encoding="utf-8", newline="")
    model, dice = Model(sys.stdin.read()), random.Random(given.seed)
    said = 0
    while said < given.max_tokens and (said < 64 or given.ignore_eos):
        time.sleep(given.seconds)  # a real model computes a token here
        word = model.next(given.temperature, dice)
        model.words.append(word)
        said += 1
        sys.stdout.write(word)
        sys.stdout.flush()
    sys.stderr.write(f"Prompt: {model.prompt} tokens\nAnswer: {said} tokens\n")


if __name__ == "__main__":
    main()
