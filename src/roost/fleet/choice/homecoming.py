"""DECIDER: whether a home still had what it was believed to hold, by what its node found cached.

A home that was restarted, or had to make room, often has something of a conversation all the same:
the system prompt that it shares with others. So a cached token is no proof, and none missing is no
loss: templates write the seam of the last turn anew, tokens of an answer come back as others, and
its thoughts do not come back at all. Therefore only what was prompt in the turn before counts as
believed (`Home.sure_tokens`), and less than half of it is a loss. Closer would call caches lost
that go back a step at a time; looser would call a home warm that computes most of it again.

Where nothing was believed, nothing can be lost: a hint leads to a node, and promises no tokens.
"""

from __future__ import annotations

from roost.fleet.effects import Placement


def found(placement: Placement, home_tokens: int, cached_tokens: int) -> Placement:
    """Correct where a request was placed by how much its node had of `home_tokens`."""
    if placement != "warm" or (cached_tokens > 0 and 2 * cached_tokens >= home_tokens):
        return placement
    return "lost" if home_tokens else "cold"


def lost_tokens(placement: Placement, home_tokens: int, cached_tokens: int) -> int:
    """Count what was computed again that the home had, or was believed to have; 0 without one."""
    if found(placement, home_tokens, cached_tokens) == "warm":
        return 0
    return max(0, home_tokens - cached_tokens)
