"""VALUE: what came of one request, and of all of a load."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["ok", "shed", "failed"]
"""`ok`: whole, with its finish and the end of the stream. `shed`: refused at once with 429, 503 or
529, before any of its answer. `failed`: everything else, a stream that just stops included."""


class Sample(msgspec.Struct, frozen=True):
    """One request. Times in seconds; `ttft_s`, `gaps_s` and `e2e_s` count from when it was due.

    `why` is the kind of failure, "" for none. Counts are the server's own; None where it told none.
    """

    model: str
    due_s: float
    late_s: float
    e2e_s: float
    outcome: Outcome
    why: str = ""
    status: int = 0
    ttft_s: float | None = None
    gaps_s: tuple[float, ...] = ()
    text_chunks: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    queue_s: float | None = None
    placement: str = ""
    node: str = ""
    retry_after: str = ""

    @property
    def tpot_s(self) -> float | None:
        """Seconds per token behind the first: (e2e - ttft) / (n - 1)."""
        tokens = self.completion_tokens
        if self.ttft_s is None or tokens is None or tokens < 2:
            return None
        return (self.e2e_s - self.ttft_s) / (tokens - 1)


class Played(msgspec.Struct, frozen=True):
    """Every request that was sent, how many were not, and how long all of it took."""

    samples: tuple[Sample, ...]
    dropped: int
    wall_s: float
