#!/usr/bin/env python3
"""A faithful fake of llama.cpp's server: the same requests, slots and faults, without a model.

Bytes are tokens, and the answer repeats the end of the prompt. The "model" file is JSON that may
set `load_s`, `load_error`, `prefill_ms` and `decode_ms` per token, and the `ctx` and `vocab` it
claims. A prompt may hold `@fault NAME N`: after N tokens the server dies, hangs, closes the
connection or reports an error; `@fault status N` answers with that status at once. A prompt with
`@gate` is held, its slot taken, until the file exists that the model names as its `gate`. All that
is asked for is printed, so that the log tells what came in.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

# This file is run by whatever Python there is, from wherever it lies.
sys.path.append(str(Path(__file__).resolve().parents[2]))
Json: TypeAlias = dict[str, Any]

BOS, START, END = 256, 257, 258
SPECIAL = {"<s>": BOS, "<|im_start|>": START, "<|im_end|>": END}
FLAGS = (
    *("-m, --model FNAME", "-c, --ctx-size N", "-np, --parallel N", "-b, --batch-size N"),
    *("-ub, --ubatch-size N", "-t, --threads N", "--host HOST", "--port PORT"),
    *("--threads-http N", "-C, --cpu-mask M", "--cpu-strict <0|1>"),
    *("--api-key KEY", "--api-key-file FNAME", "--no-kv-unified", "--cache-ram N"),
    *("-tb, --threads-batch N", "-ngl, --gpu-layers, --n-gpu-layers N", "-mg, --main-gpu INDEX"),
    *("-ctk, --cache-type-k TYPE", "-ctv, --cache-type-v TYPE", "-fa, --flash-attn [on|off|auto]"),
    *("--embedding, --embeddings", "--pooling {none,mean,cls,last,rank}"),
    "--rerank, --reranking",
    *("-kvo, --kv-offload, -nkvo, --no-kv-offload", "--mmap, --no-mmap", "--mlock"),
    *("-mm, --mmproj FILE", "--lora FNAME", "--lora-scaled FNAME:SCALE,...", "--numa TYPE"),
    *("--slots", "--no-webui", "--chat-template JINJA_TEMPLATE", "--slot-save-path PATH"),
)
HELP = "ip address to listen, or bind to an UNIX socket if the address ends with .sock"


WRONG: dict[str, Json] = {
    "error": {"error": {"code": 500, "message": "Compute error.", "type": "server_error"}},
    "full": {"error": {"code": 500, "message": "Context size has been exceeded."}},
    "nonsense": {"content": 5},
}


class Gone(Exception):  # noqa: N818 - the client has left
    """Nobody reads any more."""


async def pause(seconds: float) -> None:
    """Let time pass."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)


def tokenize(text: str, *, special: bool) -> list[int]:
    """Turn text into bytes, and the texts of special tokens into those where asked."""
    if not special:
        return list(text.encode())
    parts = re.split("(" + "|".join(map(re.escape, SPECIAL)) + ")", text)
    return [
        token
        for part in parts
        for token in ([SPECIAL[part]] if part in SPECIAL else list(part.encode()))
    ]


def shortest(grammar: str) -> str:
    """Give the shortest text of a grammar; raises `ValueError` or `KeyError` for none."""
    from tests.backends.fake_grammar import Grammar

    return Grammar(grammar).shortest()


class Slot:
    """One slot: what it holds, whether it is taken, and who waits for it."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.turn = asyncio.Lock()
        self.busy = False


class Server:
    """The whole server: its model, its slots and its answers."""

    loading: ClassVar[Json] = {
        "error": {"message": "Loading model", "type": "unavailable_error", "code": 503}
    }

    def __init__(self, args: argparse.Namespace, model: Json, key: str) -> None:
        self.model = model
        self.args = args
        self.key = key
        self.ready = False
        self.ctx = model.get("ctx", args.ctx_size // args.parallel)
        self.batch = args.batch_size
        self.states = args.slot_save_path and args.slot_save_path.rstrip("/") + "/"
        self.slots = [Slot() for _ in range(args.parallel)]
        self.answers: list[tuple[list[int], list[int]]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection, one after another."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, Gone):
            while await self.answered(reader, writer):
                await writer.drain()
        writer.close()

    async def answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request, and say whether its connection is kept."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, path, _ = head.split(" ", 2)
        found = re.search(r"(?i)content-length: *(\d+)", head)
        body = await reader.readexactly(int(found[1])) if found else b""
        if path != "/health" and f"Bearer {self.key}\r\n" not in head:
            reply(writer, 401, {"error": {"message": "Invalid API Key", "code": 401}})
        elif not self.ready:
            reply(writer, 503, self.loading)
        elif (method, path) == ("POST", "/completion"):
            await self.complete(json.loads(body), writer)
        else:
            reply(writer, *self.answer(method, path, json.loads(body or b"{}")))
        return "\r\nConnection: close\r\n" not in head

    def begun(self, prompt: list[int]) -> list[int] | None:
        """Give the rest of an answer of which the prompt ends in the beginning, as a model would.

        A model knows by its weights how it would go on; this one has to remember.
        """
        for before, answer in reversed(self.answers):
            said = prompt[len(before) :]
            if said and prompt[: len(before)] == before and answer[: len(said)] == said:
                return answer[len(said) :]
        return None

    def answer(self, method: str, path: str, body: Json) -> tuple[int, object]:
        """Answer everything but completions."""
        if (method, path) == ("GET", "/health"):
            return 200, {"status": "ok"}
        if (method, path) == ("GET", "/props"):
            settings = {"n_ctx": self.ctx, "params": {}}
            return 200, {
                "default_generation_settings": settings,
                "total_slots": len(self.slots),
            }
        if (method, path) == ("GET", "/v1/models"):
            return 200, {"data": [{"id": "m", "meta": {"n_vocab": self.model.get("vocab", 259)}}]}
        if (method, path) == ("GET", "/slots"):
            return 200, [
                {"id": number, "n_ctx": self.ctx, "is_processing": slot.busy}
                for number, slot in enumerate(self.slots)
            ]
        if (method, path) == ("POST", "/tokenize"):
            say("tokenize")
            pieces = body["content"] if isinstance(body["content"], list) else [body["content"]]
            tokens = [tokenize(piece, special=body["parse_special"]) for piece in pieces]
            first = [BOS] if body["add_special"] else []
            return 200, {"tokens": sum(tokens, first)}
        if (method, path) == ("POST", "/v1/embeddings") and self.args.embeddings:
            from tests.backends.fake_vectors import embed

            return embed(self.model, body["input"])
        if (method, path) == ("POST", "/v1/rerank") and self.args.reranking:
            from tests.backends.fake_vectors import rank

            return rank(self.model, body["query"], body["documents"])
        if method == "POST" and (found := re.fullmatch(r"/slots/(\d+)\?action=(\w+)", path)):
            slot = self.slots[int(found[1])]
            say(f"act {found[2]} {found[1]} {'busy' if slot.busy else 'idle'}")
            return self.act(slot, found[2], body.get("filename", ""))
        return 404, {"error": {"message": "File Not Found", "code": 404}}

    def act(self, slot: Slot, action: str, name: str) -> tuple[int, object]:
        """Save, restore or erase a slot; models say `states` "lost" or "refused" to be odd."""
        odd = self.model.get("states", "")
        if not self.states or "/" in name or odd == "refused":
            return 501, {"error": {"message": "not supported", "code": 501}}
        if action == "erase":
            erased, slot.tokens = len(slot.tokens), []
            return 200, {"n_erased": erased}
        path = Path(self.states + name)
        if action == "save":
            path.write_text(json.dumps(slot.tokens))
            return 200, {"n_saved": len(slot.tokens), "n_written": path.stat().st_size}
        slot.tokens = []
        try:
            slot.tokens = json.loads(path.read_text())
        except (OSError, ValueError):
            return 400, {"error": {"message": "Unable to restore slot", "code": 400}}
        restored = len(slot.tokens)
        if odd == "lost":
            slot.tokens = []
        return 200, {"n_restored": restored}

    async def complete(self, body: Json, writer: asyncio.StreamWriter) -> None:
        """Run a completion on the slot it names, once that slot is free."""
        say(json.dumps({name: value for name, value in body.items() if name != "prompt"}))
        text = bytes(token for token in body["prompt"] if token < BOS).decode("utf-8", "replace")
        kind, after = (*re.findall(r"@fault (\w+) (\d+)", text), ("", "0"))[0]
        if kind == "status":
            reply(writer, int(after), {"error": {"message": "no", "code": int(after)}})
            return
        if len(body["prompt"]) >= self.ctx:
            reply(writer, 400, {"error": {"message": "exceeds", "code": 400}})
            return
        try:
            held_to = shortest(body["grammar"]) if body.get("grammar") else None
        except (KeyError, ValueError):
            failed = {"message": "Failed to initialize samplers: failed to parse grammar"}
            reply(writer, 400, {"error": {**failed, "code": 400}})
            return
        slot = self.slots[body["id_slot"]]
        async with slot.turn:
            slot.busy = True
            try:
                await self.pass_gate(text)
                await self.run(Completion(self, slot, body, held_to), writer, kind, int(after))
            finally:
                slot.busy = False

    async def pass_gate(self, text: str) -> None:
        """Hold a request that wants to be held."""
        if "@gate" in text:
            say("held")
            while not os.path.exists(self.model["gate"]):  # noqa: ASYNC240, PTH110 - a local file
                await pause(0.01)

    async def run(
        self, completion: Completion, writer: asyncio.StreamWriter, kind: str, after: int
    ) -> None:
        """Stream a completion, and misbehave after some tokens if asked to."""
        if not completion.body["stream"]:
            *_, last = [message async for message in completion.messages()]
            reply(writer, 200, last)
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\nKeep-Alive: timeout=5, max=100\r\n\r\n"
        )
        async for message in completion.messages():
            if kind and message.get("tokens_predicted", 0) >= after:
                await misbehave(kind, writer)
                raise Gone
            await send(writer, message)
        writer.write(b"0\r\n\r\n")


async def misbehave(kind: str, writer: asyncio.StreamWriter) -> None:
    """Do what no server should; `close` does nothing more."""
    if kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hang":
        await pause(3600)
    if kind in WRONG:
        await send(writer, WRONG[kind])


class Completion:
    """One completion: prefill in batches, then bytes, whole characters at a time."""

    def __init__(self, server: Server, slot: Slot, body: Json, held_to: str | None) -> None:
        self.server = server
        self.slot = slot
        self.body = body
        self.prompt: list[int] = body["prompt"]
        self.count = 0
        self.held_to = held_to

    async def messages(self) -> AsyncIterator[Json]:
        """Yield what the server says, the last with `stop`."""
        cached = self._cached()
        total = len(self.prompt)
        self.slot.tokens = self.prompt[:cached]
        yield self._progress(cached, cached)
        while (done := len(self.slot.tokens)) < total:
            until = min(total, done + self.server.batch)
            await pause((until - done) * self.server.model.get("prefill_ms", 0) / 1000)
            self.slot.tokens = self.prompt[:until]
            yield self._progress(cached, until)
        held = b""
        for byte in self._answer():
            await pause(self.server.model.get("decode_ms", 0) / 1000)
            self.count += 1
            self.slot.tokens.append(byte)
            held += bytes([byte])
            with contextlib.suppress(UnicodeDecodeError):
                yield self._said(held.decode(), held)
                held = b""
        limited = self.count >= self.body["n_predict"]
        yield {
            "content": "",
            "stop": True,
            "stop_type": "limit" if limited else "eos",
            "tokens_predicted": self.count,
            "tokens_evaluated": total,
            "timings": {
                "cache_n": cached,
                "prompt_n": total - cached,
                "prompt_ms": 1.0 + self.server.model.get("prefill_ms", 0) * (total - cached),
                "predicted_n": self.count,
                "predicted_ms": 2.0,
            },
        }

    def _cached(self) -> int:
        if not self.body["cache_prompt"]:
            return 0
        common = 0
        for ours, theirs in zip(self.slot.tokens, self.prompt, strict=False):
            if ours != theirs:
                break
            common += 1
        return min(common, len(self.prompt) - 1)

    def _answer(self) -> list[int]:
        if self.held_to is not None:
            return list(self.held_to.encode())[: self.body["n_predict"]]
        never = {token for token, bias in self.body.get("logit_bias", ()) if bias is False}
        return [byte for byte in self._said_after() if byte not in never]

    def _said_after(self) -> list[int]:
        turns = bytes(token if token < BOS else 0 for token in self.prompt).split(b"\0")
        if (begun := self.server.begun(self.prompt)) is not None:
            return begun[: self.body["n_predict"]]
        text = turns[-3].partition(b"\n")[2] if END in self.prompt else turns[-1]
        if "seed" in self.body:
            words = random.Random(self.body["seed"]).choices((b" oak", b" elm", b" fir"), k=9)
            text += b"".join(words)
        limit = self.body["n_predict"]
        if self.body["ignore_eos"]:
            text = (text or b" ") * (limit // max(1, len(text)) + 99)
        self.server.answers.append((self.prompt, list(text)))
        return list(text[:limit])

    def _progress(self, cached: int, done: int) -> Json:
        total = len(self.prompt)
        progress = {"total": total, "cache": cached, "processed": done, "time_ms": 0}
        return {"content": "", "tokens": [0], "stop": False, "prompt_progress": progress}

    def _said(self, text: str, raw: bytes) -> Json:
        said: Json = {"content": text, "stop": False, "tokens_predicted": self.count}
        if self.body.get("return_tokens"):
            # As the real one: of a character of several tokens only the last is told.
            said["tokens"] = [raw[-1]]
        if self.body.get("n_probs"):
            token = {"id": raw[0], "token": text, "bytes": list(raw), "logprob": -0.25}
            unlikely = {"id": 1, "token": "", "bytes": [1], "logprob": None}
            top = [token, unlikely][: self.body["n_probs"]]
            said["completion_probabilities"] = [{**token, "top_logprobs": top}]
        return said


def reply(writer: asyncio.StreamWriter, status: int, body: object) -> None:
    """Write a whole answer."""
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    writer.write(head.encode() + b"\r\nKeep-Alive: timeout=5, max=100\r\n\r\n" + data)


async def send(writer: asyncio.StreamWriter, message: Json) -> None:
    """Write one event; a write is what notices that the client has left."""
    data = b"data: " + json.dumps(message).encode() + b"\n\n"
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()
    if writer.is_closing():
        raise Gone


def parser() -> argparse.ArgumentParser:
    """Give a parser of the arguments this server knows."""
    found = argparse.ArgumentParser(add_help=False)
    for name in ("--model", "--host", "--api-key", "--api-key-file", "--chat-template"):
        found.add_argument(name, default="")
    for name in ("--slot-save-path", "--cache-type-k", "--cache-type-v", "--flash-attn", "--numa"):
        found.add_argument(name, default="")
    for name in ("--mmproj", "--lora", "--lora-scaled", "--threads-batch", "--gpu-layers"):
        found.add_argument(name, default="")
    for name in ("--main-gpu", "--cpu-mask", "--cpu-strict"):
        found.add_argument(name, default="")
    for name in ("--ctx-size", "--parallel", "--batch-size", "--ubatch-size", "--threads"):
        found.add_argument(name, type=int, default=1)
    for name in ("--port", "--cache-ram", "--threads-http"):
        found.add_argument(name, type=int, default=0)
    found.add_argument("--pooling", default="")
    for name in (
        "--embeddings",
        "--reranking",
        "--no-kv-offload",
        "--mmap",
        "--no-mmap",
        "--mlock",
    ):
        found.add_argument(name, action="store_true")
    for name in ("--no-kv-unified", "--slots", "--no-webui", "--help"):
        found.add_argument(name, action="store_true")
    return found


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def main(args: argparse.Namespace, model: Json, key: str) -> int:
    """Listen, load, and serve until a signal comes."""
    server = Server(args, model, key)
    if args.host.endswith(".sock"):
        listening = await asyncio.start_unix_server(server.serve, args.host)
    else:
        listening = await asyncio.start_server(server.serve, args.host, args.port)
    say(f"arguments: {json.dumps(sys.argv[1:])}")
    await pause(model.get("load_s", 0))
    if "last_words" in model:
        say(f"0.01.002.003 W {model['last_words']}")
        return 3
    if model.get("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if "header_error" in model:
        say(f"0.00.003.980 E gguf_init_from_reader: {model['header_error']}")
    if "load_error" in model:
        say(f"E llama_model_load: error loading model: {model['load_error']}")
        return 1
    server.ready = True
    async with listening:
        await listening.serve_forever()
    return 0


if __name__ == "__main__":
    parsed = parser().parse_args()
    if parsed.help:
        say("\n".join((*FLAGS, HELP)))
        sys.exit(0)
    secret = parsed.api_key or Path(parsed.api_key_file).read_text().strip()
    sys.exit(asyncio.run(main(parsed, json.loads(Path(parsed.model).read_text()), secret)))
