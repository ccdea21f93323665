"""MACHINE: how one runtime does: its rates as they are now, its failures, and what is odd.

Tokens are counted as they come and forgotten as they age, whoever looks and whenever: a runtime
that does nothing has no rate left of what it did. A client that leaves is no failure.

Odd is what differs from this runtime's own past: answers at less than half of the pace that it had
with as many at once, prompts at a fifth of theirs, memory that grows beyond what its tokens take.
"""

from __future__ import annotations

from collections import deque

from roost.core.about import Anomaly, RuntimeVitals

WINDOW_S = 10
"""Over which rates are taken."""

PREFILLS = 32
"""Over which the time of a prefill is averaged."""

LEARNT_MIN = 8
"""So many seconds, or prefills, until there is a past to differ from."""

SLOW_SECONDS = 5
DECODE_DROP, PREFILL_SPIKE = 0.5, 5.0
PREFILL_TOKENS_MIN = 32
SPARE_BYTES = 256 * 1024 * 1024
_FOLLOWS = 0.05
"""How far a learned pace follows each second."""


class _Pace:
    """A learned figure: the mean of the first ones, then a slow average."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0

    def learn(self, value: float) -> None:
        self.count += 1
        self.mean += (value - self.mean) * max(_FOLLOWS, 1 / self.count)

    @property
    def is_known(self) -> bool:
        return self.count >= LEARNT_MIN


class Vitals:
    """Fed by the events of a runtime's streams; `now` is when it became ready."""

    def __init__(self, now: float) -> None:
        self._born_s = now
        # Of each second in which something was generated: its number, tokens, most streams.
        self._seconds: deque[tuple[int, int, int]] = deque(maxlen=WINDOW_S + 1)
        self._paces: dict[int, _Pace] = {}
        self._shares: deque[float] = deque(maxlen=SLOW_SECONDS)
        self._prefills: deque[float] = deque(maxlen=PREFILLS)
        self._prefill_pace = _Pace()
        self._spiked_s: float | None = None
        self._prefilled = self._generated = self._failures = 0
        self._first_rss: int | None = None
        self._grows = False

    def on_prefill(self, tokens: int, took_s: float, now: float) -> None:
        """A prompt of which so many tokens were computed led to a first text after so long."""
        self._prefilled += tokens
        self._prefills.append(took_s)
        if tokens < PREFILL_TOKENS_MIN:
            return
        each_s, pace = took_s / tokens, self._prefill_pace
        spiked = pace.is_known and each_s > PREFILL_SPIKE * pace.mean
        self._spiked_s = now if spiked else None
        pace.learn(each_s)

    def on_tokens(self, count: int, live: int, now: float) -> None:
        """So many tokens came while so many streams were live."""
        self._generated += count
        second = int(now)
        if self._seconds and self._seconds[-1][0] == second:
            _, before, most = self._seconds.pop()
            self._seconds.append((second, before + count, max(most, live)))
            return
        self._learn(second)
        self._seconds.append((second, count, live))

    def on_failure(self) -> None:
        """A stream ended by the runtime's fault."""
        self._failures += 1

    def on_memory(self, rss_bytes: int | None, token_bytes: int | None) -> None:
        """Its process takes so much; each token's KV takes so much, where that is known."""
        if rss_bytes is None or token_bytes is None:
            return
        if self._first_rss is None:
            self._first_rss = rss_bytes
        explained = 2 * token_bytes * (self._prefilled + self._generated) + SPARE_BYTES
        self._grows = rss_bytes - self._first_rss > explained

    def view(self, now: float) -> RuntimeVitals:
        """How it does now."""
        since = now - WINDOW_S
        recent = sum(count for second, count, _ in self._seconds if second + 1 > since)
        span_s = min(WINDOW_S, max(1.0, now - self._born_s))
        return RuntimeVitals(
            prefill_last_s=self._prefills[-1] if self._prefills else None,
            prefill_avg_s=sum(self._prefills) / len(self._prefills) if self._prefills else None,
            decode_tokens_per_s=recent / span_s,
            generated_tokens=self._generated,
            failures=self._failures,
            anomalies=self._anomalies(now),
        )

    def _learn(self, second: int) -> None:
        """A second is over; it counts if the next one goes on where it ended."""
        if not self._seconds:
            return
        last, count, live = self._seconds[-1]
        if second != last + 1:
            self._shares.clear()
            return
        pace = self._paces.setdefault(live, _Pace())
        if pace.is_known:
            self._shares.append(count / pace.mean)
        pace.learn(count)

    def _anomalies(self, now: float) -> tuple[Anomaly, ...]:
        found: list[Anomaly] = []
        goes_on = bool(self._seconds) and now - self._seconds[-1][0] < 2
        whole = len(self._shares) == SLOW_SECONDS
        if goes_on and whole and sum(self._shares) < DECODE_DROP * SLOW_SECONDS:
            found.append("slow_decode")
        if self._spiked_s is not None and now - self._spiked_s < WINDOW_S:
            found.append("slow_prefill")
        if self._grows:
            found.append("memory_growth")
        return tuple(found)
