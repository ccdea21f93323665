"""VALUE: how the text of an answer is to be read: which of it is thought, and which a call."""

from __future__ import annotations

import msgspec

from roost.core.request import ToolMode


class Reading(msgspec.Struct, frozen=True, omit_defaults=True):
    """Known by whoever rendered the prompt, used by whoever speaks to the client.

    `think` is the pair of marks around thoughts, `call` the one around the JSON of a call; None
    where the answer has no such thing. `begun` is what the prompt has said of the answer already,
    and `ends` completes a call where the text ends before its closing mark. `tools` are the names
    that may be called, with `mode`, `only` and `parallel` as in an offer.
    """

    think: tuple[str, str] | None = None
    call: tuple[str, str] | None = None
    begun: str = ""
    ends: str = ""
    tools: tuple[str, ...] = ()
    mode: ToolMode = "auto"
    only: str = ""
    parallel: bool = True


PLAIN = Reading()
"""All of it is text."""


def marks_of(reading: Reading) -> tuple[str, ...]:
    """List the marks that have to be in an answer's text for it to be read."""
    return (*(reading.think or ()), *(reading.call or ()))
