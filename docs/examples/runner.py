#!/usr/bin/env python3
"""SHELL: a runner in one file: what a program does that serves a model through roost's `command`.

    runner.py [SECONDS]

It needs nothing but Python. Its "model" says what followed the last few bytes before, and takes so
many seconds for a token; put a real one in the place of `Model`. docs/runners.md describes the
protocol.
"""

from __future__ import annotations

import base64
import json
import os
import select
import sys
import time
from collections.abc import Iterator

SPECIAL = {"<s>": 256, "<|im_start|>": 257, "<|im_end|>": 258}
VOCAB_SIZE = 259
TOKEN_S = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0


class Model:
    """Bytes are tokens, and what comes next is what came after the same bytes before."""

    def __init__(self, ctx: int) -> None:
        self.ctx = ctx

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Give the tokens of a text; with `special`, the texts of special tokens become those."""
        tokens: list[int] = []
        while text:
            found = next((one for one in SPECIAL if special and text.startswith(one)), "")
            tokens += [SPECIAL[found]] if found else text[0].encode()
            text = text[len(found) or 1 :]
        return tokens

    def next(self, tokens: list[int]) -> int:
        """Give the token after these."""
        for size in (6, 3, 1):
            for at in range(len(tokens) - size - 1, 0, -1):
                if tokens[at : at + size] == tokens[-size:] and tokens[at + size] < 256:
                    return tokens[at + size]
        return 32


def say(**word: object) -> None:
    """Write one word: a line of JSON."""
    sys.stdout.write(json.dumps(word) + "\n")
    sys.stdout.flush()


def run(model: Model, order: dict, batch: int) -> Iterator[None]:
    """Work on a run, a step between two `yield`s; whoever closes this cancels the run."""
    number, tokens = order["run"], list(order["tokens"])
    prompt = len(tokens)
    say(type="began", run=number, cached=0)
    for at in range(0, prompt, batch):
        yield
        time.sleep(TOKEN_S)  # a real model computes `batch` tokens of the prompt here
        say(type="filled", run=number, done=min(at + batch, prompt))
    for _ in range(order["limit"]):
        yield
        time.sleep(TOKEN_S)
        token = model.next(tokens)
        tokens.append(token)
        raw = base64.b64encode(bytes((token,))).decode()
        say(type="said", run=number, token=token, raw=raw)
    say(type="over", run=number, reason="length")


class Runner:
    """Reads orders, and gives every run a step in turn."""

    def __init__(self) -> None:
        self.model = Model(0)
        self.batch = 256
        self.runs: dict[int, Iterator[None]] = {}
        self.paused: set[int] = set()

    def on_order(self, order: dict) -> None:
        """Do what an order says; unknown ones are those of a later version."""
        kind, number = order["type"], order.get("run")
        if kind == "load":
            self.model, self.batch = Model(order["ctx"] or 4096), order["batch"]
            say(type="loaded", ctx=self.model.ctx, vocab_size=VOCAB_SIZE, bos=[256])
        elif kind == "tokenize":
            self.on_tokenize(order)
        elif kind == "run":
            self.runs[number] = run(self.model, order, self.batch)
        elif kind == "flow":
            (self.paused.add if order["paused"] else self.paused.discard)(number)
        elif kind == "cancel" and self.runs.pop(number, None) is not None:
            say(type="over", run=number, reason="cancelled")

    def on_tokenize(self, order: dict) -> None:
        """Answer a question for tokens; more than are wanted are only counted."""
        pieces, special = order["pieces"], order["special"]
        tokens = [t for piece in pieces for t in self.model.tokenize(piece, special=special)]
        wanted = tokens if len(tokens) <= order["tokens_max"] else []
        say(type="tokenized", ask=order["ask"], count=len(tokens), tokens=wanted)

    def step(self) -> None:
        """Give every run that is not paused one step."""
        for number, steps in list(self.runs.items()):
            if number not in self.paused:
                try:
                    next(steps)
                except StopIteration:
                    del self.runs[number]

    def serve(self) -> None:
        """Serve until nobody is there to read."""
        say(type="hello", version=1)
        rest = b""
        while True:
            idle = not self.runs.keys() - self.paused
            ready, _, _ = select.select([0], [], [], None if idle else 0)
            if ready:
                data = os.read(0, 65536)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.on_order(json.loads(line))
            self.step()


if __name__ == "__main__":
    Runner().serve()
