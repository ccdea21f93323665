"""A server that answers as vLLM does, without an engine: what it says follows from the prompt.

    fake_vllm.py [-m MODULE] [serve] [FOLDER] [FLAGS]

It says its words again, ten for a second of its own clock, and writes what it was told next to the
folder of its model. FOLDER/fake.json makes it behave badly.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import TypedDict

WORD = re.compile(r"\s*[^\W_]+|\s*\S|\s+")
HEAD = b"HTTP/1.1 %s\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"


def flag(name: str, default: str = "") -> str:
    """Give what follows a flag."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


class Message(TypedDict):
    """One turn of a chat."""

    content: str


class Asked(TypedDict, total=False):
    """What a client sends, as far as it matters here."""

    messages: list[Message]
    prompt: str
    max_tokens: int
    ignore_eos: bool


class Server:
    """One model."""

    def __init__(self, folder: str) -> None:
        self.model = flag("--served-model-name") or Path(folder).name
        self.key = os.environ.get("VLLM_API_KEY", "")
        base = flag("--base-path")
        if base:
            self.key = json.loads(Path(base, "settings.json").read_text())["auth"]["api_key"]
        path = Path(folder, "fake.json")
        self.fake = json.loads(path.read_text()) if path.exists() else {}
        told = {"argv": sys.argv[1:], "key": self.key}
        Path(folder, "told.json").write_text(json.dumps(told))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"Content-Length: (\d+)", head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            path = head.split(" ")[1]
            if path.startswith("/v1/") and f"Authorization: Bearer {self.key}\r\n" not in head:
                writer.write(HEAD % b"401 Unauthorized" + b"0\r\n\r\n")
            elif path == "/health":
                writer.write(HEAD % b"200 OK" + b"0\r\n\r\n")
            elif path == "/v1/models":
                self.chunk(writer, json.dumps({"data": [{"id": self.model}]}), head=True)
                writer.write(b"0\r\n\r\n")
            else:
                await self.speak(writer, json.loads(body), chat="chat" in path)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    def chunk(self, writer: asyncio.StreamWriter, text: str, *, head: bool = False) -> None:
        """Write a piece of a body."""
        data = text.encode()
        writer.write((HEAD % b"200 OK" if head else b"") + b"%x\r\n%s\r\n" % (len(data), data))

    async def speak(self, writer: asyncio.StreamWriter, asked: Asked, *, chat: bool) -> None:
        """Stream an answer."""
        prompt = asked["messages"][-1]["content"] if chat else asked["prompt"]
        words = WORD.findall(prompt)
        most = asked.get("max_tokens") or 10**6
        if asked.get("max_tokens") and len(words) + most > int(flag("--max-model-len", "1024")):
            # As vLLM: what does not fit behind the prompt is refused, and what is not said fits.
            writer.write(HEAD % b"400 Bad Request" + b"0\r\n\r\n")
            return
        writer.write(HEAD % b"200 OK")
        for said in range(most):
            if said >= len(words) and not asked.get("ignore_eos"):
                most = said
                break
            text = words[said % len(words)]
            piece = {"delta": {"content": text}} if chat else {"text": text}
            self.chunk(writer, f"data: {json.dumps({'choices': [piece]})}\n\n")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                # Nobody sets it: it only takes its time.
                await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        reason = "length" if asked.get("max_tokens") == most else "stop"
        end = {"choices": [{"finish_reason": reason}]}
        usage = {"choices": [], "usage": {"prompt_tokens": len(words), "completion_tokens": most}}
        for one in (json.dumps(end), json.dumps(usage), "[DONE]"):
            self.chunk(writer, f"data: {one}\n\n")
        writer.write(b"0\r\n\r\n")


def folder() -> str:
    """Find the folder of the model, behind a flag, a verb, or as the only one of a folder."""
    if models := flag("--model-dir"):
        (found,) = map(str, Path(models).iterdir())
        return found
    return flag("--model") or sys.argv[2]


async def main() -> None:
    """Serve."""
    server = Server(folder())
    if server.fake.get("dies"):
        sys.exit("error: no kernel image is available")
    if not server.fake.get("hangs"):
        await asyncio.start_server(server.answer, flag("--host"), int(flag("--port")))
    await asyncio.Event().wait()


if __name__ == "__main__":
    if "--help=all" in sys.argv:
        sys.stdout.write("--enable-prefix-caching, --no-enable-prefix-caching\n")
    else:
        asyncio.run(main())
