"""DECIDER: samples as figures, by the definitions of the project.

TTFT is from when a request was due to its first content. Gaps are all times between pieces of
content, of all requests together, and no means of them. TPOT is (e2e - TTFT) / (n - 1). Latencies
are of requests that were answered whole; those that were not are counted beside them, by kind.
Goodput is requests a second that were answered whole and within the SLO. What no server told is
null, and never 0.
"""

from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roost.bench.load.sample import Played, Sample


class Spread(msgspec.Struct, frozen=True):
    """How values are spread, in the unit of the field that holds it; by nearest rank."""

    count: int
    min: float
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


class Slo(msgspec.Struct, frozen=True):
    """What an answer has to keep to be a good one; None is no demand."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None

    def kept(self, sample: Sample) -> bool:
        """Whether a whole answer kept it; an answer of one token has no time per further one."""
        found = (
            (self.ttft_ms, sample.ttft_s),
            (self.tpot_ms, sample.tpot_s),
            (self.e2e_ms, sample.e2e_s),
        )
        late = any(
            limit is not None and seen is not None and seen * 1000 > limit for limit, seen in found
        )
        silent = self.ttft_ms is not None and sample.ttft_s is None
        return sample.outcome == "ok" and not late and not silent


class Summary(msgspec.Struct, frozen=True):
    """One load, as one JSON object."""

    ok: int
    shed: int
    failed: int
    dropped: int
    errors: dict[str, int]
    wall_s: float
    requests_per_s: float
    tokens_per_s: float | None
    goodput_per_s: float
    slo: Slo
    ttft_ms: Spread | None
    gap_ms: Spread | None
    tpot_ms: Spread | None
    e2e_ms: Spread | None
    shed_ms: Spread | None
    queue_ms: Spread | None
    late_ms: Spread | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    tokens_per_chunk: float | None
    placement: dict[str, int]
    nodes: dict[str, int]
    models: dict[str, int]


def spread(values: Iterable[float]) -> Spread | None:
    """Describe values; None where there are none."""
    ordered = sorted(values)
    if not ordered:
        return None
    p50, p90, p95, p99 = (_ranked(ordered, share) for share in (0.5, 0.9, 0.95, 0.99))
    mean = round(fmean(ordered), 3)
    return Spread(len(ordered), ordered[0], mean, p50, p90, p95, p99, ordered[-1])


def _ranked(ordered: Sequence[float], share: float) -> float:
    """Return the least value that at least `share` of all do not exceed."""
    whole = -(-round(share * 100) * len(ordered) // 100)
    return ordered[max(0, whole - 1)]


def summary(played: Played, slo: Slo) -> Summary:
    """Make figures of a load."""
    samples = played.samples
    good = [sample for sample in samples if sample.outcome == "ok"]
    wall_s = max(played.wall_s, 1e-9)
    tokens = _summed(sample.completion_tokens for sample in good)
    chunks = sum(sample.text_chunks for sample in good)
    counted = Counter(sample.outcome for sample in samples)
    return Summary(
        ok=counted["ok"],
        shed=counted["shed"],
        failed=counted["failed"],
        dropped=played.dropped,
        errors=_counted(sample.why for sample in samples),
        wall_s=round(wall_s, 3),
        requests_per_s=round(len(good) / wall_s, 4),
        tokens_per_s=None if tokens is None else round(tokens / wall_s, 3),
        goodput_per_s=round(sum(slo.kept(sample) for sample in good) / wall_s, 4),
        slo=slo,
        ttft_ms=_ms(sample.ttft_s for sample in good),
        gap_ms=_ms(gap_s for sample in good for gap_s in sample.gaps_s),
        tpot_ms=_ms(sample.tpot_s for sample in good),
        e2e_ms=_ms(sample.e2e_s for sample in good),
        shed_ms=_ms(sample.e2e_s for sample in samples if sample.outcome == "shed"),
        queue_ms=_ms(sample.queue_s for sample in good),
        late_ms=_ms(sample.late_s for sample in samples),
        prompt_tokens=_summed(sample.prompt_tokens for sample in good),
        cached_tokens=_summed(sample.cached_tokens for sample in good),
        completion_tokens=tokens,
        tokens_per_chunk=round(tokens / chunks, 3) if tokens is not None and chunks else None,
        placement=_counted(sample.placement for sample in good),
        nodes=_counted(sample.node for sample in good),
        models=_counted(sample.model for sample in good),
    )


def _ms(values_s: Iterable[float | None]) -> Spread | None:
    return spread(round(value * 1000, 3) for value in values_s if value is not None)


def _summed(values: Iterable[int | None]) -> int | None:
    """Add up what is known; None where nobody told anything."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(name for name in names if name).items()))
