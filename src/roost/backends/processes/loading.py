"""SHELL: how far a load is, as far as the memory of a process tells."""

from __future__ import annotations

from roost.backends.processes.child import Child

LOADED_SHARE = 0.9


def guessed_part(child: Child, size_bytes: int) -> float:
    """Guess how much of the model is in memory: its file becomes resident as it is read.

    Buffers of its own come on top, so beyond `LOADED_SHARE` of the file the guess grows ever more
    slowly and never ends: a load that still gets on has to be told from one that hangs.
    """
    rss_bytes = child.rss_bytes()
    if rss_bytes is None or size_bytes < 1:
        return 0.0
    share = rss_bytes / size_bytes
    return share if share < LOADED_SHARE else 1 - (1 - LOADED_SHARE) * LOADED_SHARE / share
