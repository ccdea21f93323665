"""SHELL: one streamed chat with any server of the OpenAI dialect, and what it was told."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from time import monotonic

import msgspec

LINE_MAX_BYTES = 1 << 20


class Told(msgspec.Struct, frozen=True):
    """What one request was told: its prompt, what of it was cached, and when it began to speak.

    `tokens` is how long the answer is; `ended_s` is when it was over. Times count from the moment
    before connecting.
    """

    prompt: int
    cached: int
    ttft_s: float
    tokens: int = 0
    ended_s: float = math.nan


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int = 0
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


async def asked(port: int, model: str, messages: Sequence[dict[str, str]], max_tokens: int) -> Told:
    """Ask greedily for a streamed answer, and read it to its end."""
    body = json.dumps(
        {
            "model": model,
            "messages": messages,
            "max_tokens": max_tokens,
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
    ttft_s, usage, cached = math.nan, None, 0
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
    ended_s = monotonic() - began_s
    return Told(usage.prompt_tokens, cached, ttft_s, usage.completion_tokens, ended_s)
