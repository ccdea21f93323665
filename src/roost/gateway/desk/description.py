"""SHELL: the OpenAPI document of a gateway, written when somebody asks for it.

Its types are many, and nobody who only talks to models needs them: they are loaded by the first
reader, in a thread, since that takes a tenth of a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from roost.gateway.front.access import anyone
from roost.gateway.front.rendering import JSON_BODY

if TYPE_CHECKING:
    from roost.gateway.routes import Call, Routes
    from roost.gateway.tasks import Tasks

PATH = "/openapi.json"

Write: TypeAlias = Callable[[str], bytes]
"""Writes a document; its types are loaded by the first who asks."""


class Description:
    """The endpoint; `base_path` stands before every address, and `write` gives the document.

    It asks for no key: it says what there is, and nothing of what anybody has.
    """

    def __init__(self, tasks: Tasks, base_path: str, write: Write) -> None:
        self._tasks = tasks
        self._base_path = base_path
        self._write = write

    def add_to(self, routes: Routes) -> None:
        """Put it into the table."""
        routes.add("GET", PATH, self._describe, anyone)

    def _describe(self, call: Call) -> None:
        """GET /openapi.json: every address here, and what is said there."""
        self._tasks.start(self._tell(call), "openapi")

    async def _tell(self, call: Call) -> None:
        body = await asyncio.to_thread(self._write, self._base_path)
        call.exchange.answer(lambda exchange: exchange.reply(200, JSON_BODY, body))


def of_fleet(base_path: str) -> bytes:
    """Write the document of a gateway with nodes."""
    from roost.gateway.desk.openapi import document

    return document(base_path)
