"""VALUE: how long things take in the simulated world."""

from __future__ import annotations

import msgspec


class Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds and rates of one node's hardware.

    `prefill_tokens_per_s` in steps of `batch` tokens, `decode_s` per token with one live stream and
    `crowding` more of it for each further one, `stop_s` from being told to stop to a free slot.
    `spoilt` is the share of moves of what slots hold that fail for a reason of their own.
    """

    load_s: float = 1.5
    prepare_s: float = 0.002
    prefill_tokens_per_s: float = 1500.0
    batch: int = 128
    decode_s: float = 0.06
    crowding: float = 0.15
    stop_s: float = 0.02
    death_seen_s: float = 0.01
    spoilt: float = 0.0

    def prefill_s(self, tokens: int) -> float:
        """Seconds for one prefill step of so many tokens."""
        return tokens / self.prefill_tokens_per_s

    def step_s(self, live: int) -> float:
        """Seconds for one decode step with `live` streams."""
        return self.decode_s * (1.0 + self.crowding * (live - 1))

    def slower(self, factor: float) -> Costs:
        """The same hardware, `factor` times slower at computing."""
        return msgspec.structs.replace(
            self,
            prefill_tokens_per_s=self.prefill_tokens_per_s / factor,
            decode_s=self.decode_s * factor,
        )


class Distances(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds on the network: one way between node and gateway, with up to `jitter_s` more."""

    latency_s: float = 0.002
    jitter_s: float = 0.003
    redial_s: float = 0.5
