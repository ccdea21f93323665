"""SHELL: a coordinator of system 1 as workers meet it: what it asks, and what it reads."""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection
from typing import NamedTuple
from urllib.parse import urlsplit

Fields = dict[str, object]


class Reply(NamedTuple):
    """What a worker answered."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def fields(self) -> Fields:
        """The JSON object in it."""
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value

    @property
    def verdict(self) -> tuple[int, object]:
        """Status and reason."""
        return self.status, self.fields["reason"]

    @property
    def events(self) -> list[Fields]:
        """The events of a stream, without comments."""
        lines = self.body.decode().split("\n\n")
        return [json.loads(line.removeprefix("data: ")) for line in lines if line[:1] == "d"]

    @property
    def text(self) -> str:
        """The tokens of a stream, joined."""
        return "".join(str(event.get("token", "")) for event in self.events)


class Worker:
    """A client of one worker API."""

    def __init__(self, url: str, model: str = "tiny", **headers: str) -> None:
        self.url = url
        self._at = urlsplit(url)
        self._model = model
        self._headers = headers

    def connect(self) -> HTTPConnection:
        """Open a connection."""
        return HTTPConnection(self._at.hostname or "", self._at.port, timeout=60)

    def ask(self, method: str, path: str, body: object = None) -> Reply:
        """Send a request and read its whole reply."""
        sent = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        with closing(self.connect()) as connection:
            connection.request(method, path, sent, self._headers)
            reply = connection.getresponse()
            return Reply(reply.status, reply.read(), {k.lower(): v for k, v in reply.getheaders()})

    def prefill(self, session: str, prompt: str, mode: str = "create", most: int = 100) -> Reply:
        """Prefill a turn."""
        body = {"session_id": session, "prompt": prompt, "model": self._model, "max_tokens": most}
        return self.ask("POST", "/worker/prefill", body | {"mode": mode})

    def decode(self, session: str, most: int = 100) -> Reply:
        """Decode an answer."""
        body = {"session_id": session, "max_tokens": most, "temperature": 0}
        return self.ask("POST", "/worker/decode", body)

    def sessions(self) -> Fields:
        """List the sessions."""
        return self.ask("GET", "/worker/sessions").fields
