"""DECIDER: whether what a client is told of its conversation's home is true, by what it was before.

The client knows where its last turn ran, how long that prompt was, and how long the answer. Of the
next turn it is told where it runs, how much of the prompt was there, and what was lost.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SEAM_TOKENS = 8
"""What a template puts around the last answer may count for either turn."""
End = Literal["complete", "error", "cut", "refused"]


class Told(msgspec.Struct, frozen=True):
    """One turn as its client saw it; `prompt` and `answer` count tokens, 0 is unknown."""

    end: End
    status: int = 200
    node: str = ""
    placement: str = ""
    cached: int = 0
    lost: int = 0
    prompt: int = 0
    answer: int = 0
    why: str = ""


def lie(before: Told | None, told: Told) -> str:
    """Say what is not true of a complete turn; "" if everything is.

    `before` is the last turn that the conversation goes on from, None at its beginning.
    """
    if before is None:
        return "" if (told.placement, told.lost) == ("cold", 0) else "it had no home to lose"
    if told.placement == "moved(compacted)":
        # It goes on from another past, which it is told of by itself.
        return "" if not told.lost else "what compaction takes away is not lost"
    if told.prompt <= before.prompt:
        return "it does not go on from everything that was said"
    moved = told.placement.startswith("moved(")
    if told.placement == "warm":
        # Who was moved is told so once, and is at home there.
        stayed = told.node == before.node or not before.node
        held = told.cached > 0 and 2 * told.cached >= before.prompt and not told.lost
        return "" if stayed and held else "it is not where it was, or little was"
    if not moved and told.placement != "lost":
        return "it had a home"
    if moved and told.node == before.node and 2 * told.cached >= before.prompt:
        # Who was handed over meanwhile, and comes back to where it was, has lost it there.
        return "it was not moved"
    least = max(0, before.prompt - told.cached)
    most = max(0, before.prompt + before.answer + SEAM_TOKENS - told.cached)
    return "" if least <= told.lost <= most else f"it lost {least} to {most} tokens"
