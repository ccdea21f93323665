"""DECIDER: how a prompt ends, and how the answer to it is to be read.

    … the model's turn begins ▸ thoughts are ended ▸ what the client begins ▸ a call is begun

A client may begin the answer itself; the model goes on with it, and it is not said again. A call
that is demanded is begun in the model's name: then it has nothing left but to end it.
"""

from __future__ import annotations

import msgspec

from roost.core.reading import Reading
from roost.core.request import ChatPrompt, Offer
from roost.text import offers
from roost.text.control import ControlTokens, split

THINK_MARKS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
)
"""What models put around thoughts."""


class Rendered(msgspec.Struct, frozen=True):
    """A prompt in `pieces`, to be tokenised one by one with special tokens, and how to read on.

    `schema` is that of what a demanded call has to be, "" where none is demanded.
    """

    pieces: tuple[str, ...]
    reading: Reading | None = None
    schema: str = ""


class Ending:
    """How a prompt ends, and how its answer begins."""

    def __init__(self, control: ControlTokens, marker: str, think: tuple[str, str] | None) -> None:
        self._control = control
        self._marker = marker
        self._think = think

    def of(self, text: str, prompt: ChatPrompt, begun: str, *, exact: bool) -> Rendered:
        """Put the end to a rendered prompt, and tell how to read on."""
        offer, think = prompt.offer, self._think
        demands = offer is not None and offer.mode == "required"
        opened = think is not None and text.replace(self._marker, "").rstrip().endswith(think[0])
        if think is not None and opened and (demands or exact or begun.strip()):
            # A template that makes the model think first, and what is asked for is no thought.
            text, opened = f"{text.rstrip()}\n\n{think[1]}\n\n", False
        text += self._control.mark(begun, self._marker)
        if begun.strip() or demands or exact:
            think = None
        start, ends, schema = (think[0] + "\n" if think and opened else ""), "", ""
        if demands and offer is not None:
            opens, name, after = offers.opening(offer)
            gap = "\n" if begun.strip() else ""
            text += gap + opens + self._control.mark(name, self._marker) + after
            start, ends = opens + name + after, offers.closing(offer)
            schema = offers.schema_of(offer)
        pieces = split(text, self._marker)
        if think is None and offer is None:
            return Rendered(pieces)
        return Rendered(pieces, _reading(offer, think, start, ends), schema)


def _reading(offer: Offer | None, think: tuple[str, str] | None, begun: str, ends: str) -> Reading:
    if offer is None:
        return Reading(think, begun=begun)
    names = tuple(tool.name for tool in offer.tools)
    return Reading(
        think, offers.CALL_MARKS, begun, ends, names, offer.mode, offer.only, offer.parallel
    )
