"""SHELL: what requests of one runtime are held to, each format worked out once."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from roost.backends import checks
from roost.core.model import Capabilities
from roost.core.request import Constraint, GenerateRequest, JsonSchema
from roost.errors import RoostError, fail
from roost.text.constraints import rules_of
from roost.text.gbnf import Rules, written

KEPT = 32
"""Agents send the same few schemas with every request."""


class Format(NamedTuple):
    """A grammar, and how it is written."""

    rules: Rules
    gbnf: str


class Formats:
    """Formats by what they came from, those kept that were used last."""

    def __init__(self, claims: Capabilities) -> None:
        self._claims = claims
        self._kept: dict[Constraint, Format] = {}

    async def of(self, request: GenerateRequest) -> Format | None:
        """Give the format that a request is held to, None for none.

        Raises `unsupported` for anything that the backend does not claim, and what
        `roost.text.constraints.rules_of` raises.
        """
        checks.check_claimed(request, self._claims)
        constraint = request.constraint
        if constraint is None:
            return None
        found = self._kept.pop(constraint, None)
        if found is None:
            # A large schema takes a tenth of a second, in which others want to be served.
            found = await asyncio.to_thread(_worked_out, constraint)
        self._kept[constraint] = found
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return found

    async def demanded(self, request: GenerateRequest, schema: str) -> GenerateRequest:
        """Hold a request to a call that is demanded of it, as far as the backend can.

        Where it follows no schemas at all, the call is begun all the same, and whoever reads the
        answer judges what became of it. Raises for a schema that cannot be followed by a backend
        that follows others: as for a format, an answer that may be of no use is not promised.
        """
        if not schema or not self._claims.json_schema or request.constraint is not None:
            return request
        held = msgspec.structs.replace(request, constraint=JsonSchema(schema))
        try:
            await self.of(held)
        except RoostError as error:
            message = (
                f"{error.failure.message} It is the schema of a tool that has to be called; with "
                "'tool_choice' auto a call is not held to it."
            )
            raise fail(error.failure.reason, message, param="tools") from None
        return held


def _worked_out(constraint: Constraint) -> Format:
    rules = rules_of(constraint)
    return Format(rules, written(rules))
