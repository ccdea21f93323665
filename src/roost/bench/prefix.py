"""WIRING: `python -m roost.bench.prefix`: eight requests at once with one long beginning.

A stock llama.cpp server and a roost node, one after the other on the same machine: what each has
computed of the prompts in all, and when the last of the first tokens came.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import monotonic, process_time

import msgspec

from roost.backends.llama_argv import Launch
from roost.backends.llama_child import serve, stock_of
from roost.bench.drills.report import Check, Report, at_most, ms, none_of, table
from roost.bench.drills.stage import Stage, on_stage, until
from roost.bench.numbers import calibration
from roost.bench.processes import end, ends_by_term, free_port, pinned, python
from roost.gateway.loop import run

REQUESTS, WORDS_EACH, MAX_TOKENS = 8, 1104, 16
COMPUTED_BAR, TTFT_BAR = 1.1, 0.3
SLOT_CTX = 2048
BOUND_S, START_S = 900.0, 60.0
LINE_MAX_BYTES = 1 << 20
WORDS = (
    *("river", "stone", "cloud", "tree", "bird", "house", "light"),
    *("water", "field", "road", "night", "morning", "winter", "summer"),
)


class Setup(msgspec.Struct, frozen=True):
    """How many ask at once, and how many words all of them begin with, after `opening`."""

    requests: int = REQUESTS
    words: int = WORDS_EACH
    opening: str = ""


class Told(msgspec.Struct, frozen=True):
    """What one request was told: its prompt, what of it was cached, and when it began to speak."""

    prompt: int
    cached: int
    ttft_s: float


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int
    prompt_tokens_details: _Details | None = None


class _Timings(msgspec.Struct):
    cache_n: int = 0


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _Chunk(msgspec.Struct):
    choices: tuple[_Choice, ...] = ()
    usage: _Usage | None = None
    timings: _Timings | None = None


class Side(msgspec.Struct, frozen=True):
    """What came of all requests to one server."""

    told: tuple[Told, ...]

    @property
    def computed(self) -> int:
        """Tokens of all prompts that were not cached."""
        return sum(one.prompt - one.cached for one in self.told)

    @property
    def last_first_s(self) -> float:
        """When the last of them had its first token."""
        return max(one.ttft_s for one in self.told)


def prompts(setup: Setup, dice: random.Random) -> list[list[dict[str, str]]]:
    """Write conversations that differ in their last word."""
    said = [dice.choice(WORDS) for _ in range(setup.words)]
    system = {"role": "system", "content": f"{dice.randrange(10**6)} " + " ".join(said)}
    return [
        [system, {"role": "user", "content": f"{setup.opening}Question {number}"}]
        for number in range(setup.requests)
    ]


async def asked(port: int, model: str, messages: list[dict[str, str]]) -> Told:
    """Ask one of them."""
    body = json.dumps(
        {
            "model": model,
            "messages": messages,
            "max_tokens": MAX_TOKENS,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    ).encode()
    began_s = monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LINE_MAX_BYTES)
    try:
        writer.write(head + body)
        return await _read(reader, began_s)
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader, began_s: float) -> Told:
    """Read an answer; what frames its chunks is no line of an event."""
    ttft_s, usage, cached = float("nan"), None, 0
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        chunk = msgspec.json.decode(line[6:], type=_Chunk)
        if math.isnan(ttft_s) and any(choice.delta.content for choice in chunk.choices):
            ttft_s = monotonic() - began_s
        if chunk.usage is not None:
            usage = chunk.usage
            details = usage.prompt_tokens_details
            cached = details.cached_tokens if details is not None else cached
        if chunk.timings is not None:
            cached = chunk.timings.cache_n
    assert usage is not None, "a server did not say what it has computed"
    return Told(usage.prompt_tokens, cached, ttft_s)


async def asked_at_once(port: int, model: str, setup: Setup, dice: random.Random) -> Side:
    """Ask all of them at the same time."""
    talks = prompts(setup, dice)
    return Side(tuple(await asyncio.gather(*(asked(port, model, talk) for talk in talks))))


async def stock(stage: Stage, setup: Setup, dice: random.Random) -> Side:
    """Ask a server as it comes with llama.cpp."""
    assert stage.real is not None
    port = free_port()
    launch = Launch(str(stage.real), "", "", SLOT_CTX, setup.requests, 0, port=port)
    words = msgspec.json.encode(launch).decode()
    log = stage.path / "stock.log"
    server = pinned((python(), "-m", "roost.bench.prefix", "--stock", words), None, log=log)
    try:
        await until(lambda: _answers(port), "the stock server is ready", START_S)
        await asked_at_once(port, "", Setup(1, 8), dice)
        return await asked_at_once(port, "", setup, dice)
    finally:
        end(server)


def _answers(port: int) -> bool | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as reply:
            return bool(reply.status == 200) or None
    except (OSError, urllib.error.URLError):
        return None


async def ours(stage: Stage, setup: Setup, dice: random.Random) -> Side:
    """Ask a node of roost with as many slots."""
    server = stage.serve("node", "--slots", str(setup.requests))
    await server.serves()
    await asked_at_once(server.port, stage.model, Setup(1, 8), dice)
    return await asked_at_once(server.port, stage.model, setup, dice)


async def measure(stage: Stage, setup: Setup) -> Report:
    """Measure the one, then the other."""
    dice = random.Random(11)
    return report(await stock(stage, setup, dice), await ours(stage, setup, dice))


def report(theirs: Side, mine: Side) -> Report:
    """Compare what was computed with the beginning, and first tokens with those of the other."""
    beginning = max(one.cached for one in mine.told)
    computed = mine.computed / beginning if beginning else float("inf")
    first = mine.last_first_s / theirs.last_first_s
    rows = [
        [
            name,
            str(side.computed),
            ms(side.last_first_s),
            ms(min(one.ttft_s for one in side.told)),
        ]
        for name, side in (("llama.cpp", theirs), ("roost", mine))
    ]
    checks: list[Check] = [
        at_most("computed over the beginning", computed, COMPUTED_BAR),
        at_most("all first tokens over the stock server's", first, TTFT_BAR),
        none_of("requests without a first token", sum(math.isnan(t.ttft_s) for t in mine.told)),
    ]
    heads = ("server", "tokens computed", "all first tokens ms", "the first of them ms")
    tables = (f"{len(mine.told)} at once, {beginning} tokens in common", table(heads, rows))
    figures = {
        "beginning": float(beginning),
        "computed_over_beginning": computed,
        "first_tokens_over_stock": first,
    }
    return Report("prefix", tables, figures, tuple(checks))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report; status 1 if a bar was missed."""
    parser = argparse.ArgumentParser(prog="python -m roost.bench.prefix", description=__doc__)
    parser.add_argument("--real", type=Path, metavar="GGUF", help="the model's file")
    parser.add_argument("--json", type=Path, help="also write the report to this file")
    parser.add_argument("--stock", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stock:
        return serve(msgspec.json.decode(options.stock, type=Launch), stock_of)
    if options.real is None:
        parser.error("--real GGUF is needed")
    ends_by_term()
    sys.stdout.write(f"calibration loop {calibration(process_time):.1f} ms\n")
    told = run(on_stage(partial(measure, setup=Setup()), BOUND_S, options.real))
    sys.stdout.write(f"{told.text()}\n")
    if options.json:
        options.json.write_bytes(msgspec.json.encode(told))
    return 0 if told.passed else 1


if __name__ == "__main__":
    sys.exit(main())
