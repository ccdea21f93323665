"""SHELL: a prompt that is too long is prepared without its oldest turns, where it asks for that.

The runtime's own count decides, not an estimate: the fewest turns are left out with which it fits
and leaves room for an answer, found by halving.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from roost.backends.base import Prepared
from roost.core.request import ChatPrompt, GenerateRequest
from roost.errors import RoostError
from roost.text.trimming import Turns

ROOM_TOKENS = 256
"""For an answer whose length nobody has limited."""


async def prepared(
    prepare: Callable[[GenerateRequest], Awaitable[Prepared]], request: GenerateRequest
) -> Prepared:
    """Prepare a request; raises what `prepare` does where leaving out does not help."""
    prompt = request.prompt
    if not isinstance(prompt, ChatPrompt) or not prompt.trims or request.said:
        return await prepare(request)
    turns = Turns(prompt)

    async def tried(count: int) -> Prepared | RoostError:
        try:
            shorter = turns.without(count)
            return await prepare(msgspec.structs.replace(request, prompt=shorter))
        except RoostError as error:
            if error.failure.reason != "context_length_exceeded":
                raise
            return error

    found = await tried(0)
    low, high = 1, turns.spare
    if not turns.spare or _fits(found):
        return _got(found)
    # The longest that fits; the shortest there is, where none leaves the room that it should.
    best = await tried(high)
    while low < high:
        middle = (low + high) // 2
        found = await tried(middle)
        if _fits(found):
            best, high = found, middle
        else:
            low = middle + 1
    return _got(best)


def _fits(found: Prepared | RoostError) -> bool:
    """Whether there is room for the answer; one that may be as long as its prompt has enough."""
    if isinstance(found, RoostError):
        return False
    wanted = found.request.max_tokens or ROOM_TOKENS
    return found.limit >= min(wanted, len(found.tokens))


def _got(found: Prepared | RoostError) -> Prepared:
    if isinstance(found, RoostError):
        raise found
    return found
