"""VALUE: that a past was made shorter, for whoever is told."""

from __future__ import annotations

from typing import Literal

import msgspec

Trigger = Literal["proactive", "session_full", "session_gone", "worker_drain", "kv_pressure"]
"""Why a conversation is compacted; the words are system 1's."""


class Compacted(msgspec.Struct, frozen=True):
    """A turn is the first to go on from a past that was made shorter, by so many tokens."""

    trigger: Trigger
    dropped_tokens: int
