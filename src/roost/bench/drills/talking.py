"""SHELL: clients of `/coordinator/infer` that talk on whatever happens, and check what is told."""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.error
import urllib.request
from contextlib import closing, suppress

import msgspec

from roost.bench.drills.told import Told, lie

TIMEOUT_S = 60.0
AGAIN_S = 0.2
"""Between a turn that failed and the next try."""
UNHEARD = "gateway_lost"


class Facts(msgspec.Struct, frozen=True):
    """What the last event says of how a turn was served."""

    node: str = ""
    placement: str = ""
    cached_tokens: int = 0
    lost_tokens: int = 0
    prompt_tokens: int = 0


class Talker:
    """One conversation; `before` is the last turn that it goes on from.

    A turn whose gateway died may be kept or not: the one after it says only that it was served.
    """

    def __init__(self, port: int, model: str, name: str, words: str) -> None:
        self.before: Told | None = None
        self.turns: list[Told] = []
        self.lies: list[str] = []
        self._port = port
        self._model = model
        self.name = name
        self._words = words
        self._unsure = False

    async def talk(self, turns: int, most: int) -> None:
        """Have so many turns served, however often each has to be tried."""
        served = 0
        while served < turns:
            told = await asyncio.to_thread(self._turn, most)
            self.turns.append(told)
            self._check(told)
            served += told.end == "complete"
            if told.end != "complete":
                await asyncio.sleep(AGAIN_S)

    def _check(self, told: Told) -> None:
        if told.end == "complete":
            found = "" if self._unsure else lie(self.before, told)
            if found:
                self.lies.append(f"{self.name}: {found}: {told}, after {self.before}")
            self.before, self._unsure = told, False
        elif told.answer and told.end == "error" and told.prompt:
            # What its client has of an answer that was cut is part of the past.
            self.before = told
        elif told.end == "cut" or told.answer:
            self._unsure = True

    def _turn(self, most: int) -> Told:
        number = len(self.turns)
        asked = {
            "conversation_id": self.name,
            "prompt": f"This is {self.name}, part {number}. {self._words}",
            "model": self._model,
            "max_tokens": most,
        }
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        with closing(connection):
            try:
                connection.request("POST", "/coordinator/infer", json.dumps(asked))
                reply = connection.getresponse()
            except (OSError, http.client.HTTPException):
                return Told("refused", 0, why=UNHEARD)
            if reply.status != 200:
                return Told("refused", reply.status, why=_reason(reply.read()))
            return self._answer(reply)

    def _answer(self, reply: http.client.HTTPResponse) -> Told:
        events: list[dict[str, object]] = []
        # What had come stays where the rest is cut off.
        with suppress(OSError, http.client.HTTPException, ValueError):
            events.extend(json.loads(line[6:]) for line in reply if line.startswith(b"data: "))
        answer = sum("token" in event for event in events)
        last = events[-1] if events else {}
        if not last.get("finished"):
            return Told("cut", answer=answer, why=UNHEARD)
        told = msgspec.convert(last.get("roost", {}), Facts)
        failed = last["reason"] not in {"stop", "length"}
        prompt = told.prompt_tokens
        if failed:
            prompt = self._asked(reply.headers.get("x-roost-request-id", ""))
        return Told(
            "error" if failed else "complete",
            node=told.node or reply.headers.get("x-roost-node", ""),
            placement=told.placement,
            cached=told.cached_tokens,
            lost=told.lost_tokens,
            prompt=prompt,
            answer=answer,
            why=str(last.get("error", "")),
        )

    def _asked(self, request: str) -> int:
        """How long the prompt was of a turn whose end did not say so; 0 where nobody knows."""
        url = f"http://127.0.0.1:{self._port}/roost/v1/requests/{request}"
        try:
            with urllib.request.urlopen(url, timeout=10) as found:
                attempts = msgspec.json.decode(found.read())["attempts"]
        except (OSError, urllib.error.URLError):
            return 0
        return int(attempts[-1]["prompt_tokens"] or 0) if attempts else 0


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body).get("reason", ""))
    except ValueError:
        return ""
