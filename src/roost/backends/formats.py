"""SHELL: what requests of one runtime are held to, each format worked out once."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from roost.backends.base import Prepared
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

    def __init__(self) -> None:
        self._kept: dict[Constraint, Format] = {}

    async def of(self, request: GenerateRequest) -> Format | None:
        """Give the format that a request is held to, None for none; raises as `rules_of` does."""
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

    async def demanded(self, prepared: Prepared, schema: str) -> Prepared:
        """Hold an answer to the call that is demanded of it, "" for none.

        Raises where its schema cannot be followed: what may be of no use is not promised.
        """
        if not schema or prepared.request.constraint is not None:
            return prepared
        held = msgspec.structs.replace(prepared.request, constraint=JsonSchema(schema))
        try:
            await self.of(held)
        except RoostError as error:
            message = (
                f"{error.failure.message} It is the schema of a tool that has to be called; with "
                "'tool_choice' auto a call is not held to it."
            )
            raise fail(error.failure.reason, message, param="tools") from None
        return msgspec.structs.replace(prepared, request=held)


def _worked_out(constraint: Constraint) -> Format:
    rules = rules_of(constraint)
    return Format(rules, written(rules))
