"""VALUE: every limit the coordinator decides by."""

from __future__ import annotations

from typing import Literal

import msgspec

Policy = Literal[
    "least_inflight",
    "weighted",
    "round_robin",
    "random",
    "power_of_two",
    "prefix_affinity",
    "predicted",
]


class FleetSettings(msgspec.Struct, frozen=True):
    """Limits of one gateway; names end in their unit.

    `queue_length` 0 refuses at once whatever cannot start at once.
    A class that waits gets one place in `class_one_in`, however many of a better class wait too.
    `max_in_flight` caps streams per node and model from this side; 0 leaves it to the node.
    `max_decodes` and `max_decodes_per_node` cap streams of all models together, over the fleet and
    on one node; 0 is no cap. With `decodes_by_slots` a node takes more where one of its models has
    more slots than that.
    `pace_least` observations of a node and model, the newest at most `pace_ttl_s` old, are what a
    prediction needs.
    `retry_ratio` and `retry_floor` bound retries per `retry_window_s`; `retry_attempts` counts
    dispatches of one request that may fail, the first included.
    `busy_backoff_s` is how long a node that refused for lack of room is left alone, doubled with
    each refusal in a row up to `busy_backoff_max_s`; `busy_bounces` bounds refusals of one request.
    A node's breaker for a model opens after `breaker_failures` in a row, or when a share of
    `breaker_ratio` of the last `breaker_window` requests has failed; for `breaker_open_s`, doubled
    each time up to `breaker_open_max_s`; it closes after `breaker_successes` requests gone well.
    A request on which `quarantine_kills` runtimes or nodes have died is not tried again. After a
    death at most `redispatch_per_node` of those that it hit prefill on any one node at a time.
    Receipts are kept for the newest `receipts_entries` requests, `receipts_ttl_s` at most.
    While nobody runs a model its requests start at most `replicas` loads at a time, and while
    somebody does, none: more runtimes come of a line that takes longer than a load. 0 lets every
    node load. `keep` says how many runtimes of which models are loaded before anybody asks.
    Placement is looked at every `placement_s`; a node that was asked to load has `want_s` to show
    that it does.
    `stall_s` is how late a tick may be before the gateway blames itself and not its nodes.
    """

    policy: Policy = "predicted"
    queue_length: int = 64
    queue_wait_s: float = 60.0
    class_one_in: int = 8
    max_in_flight: int = 0
    max_decodes: int = 0
    max_decodes_per_node: int = 0
    decodes_by_slots: bool = False
    pace_least: int = 3
    pace_ttl_s: float = 120.0
    link_suspect_s: float = 2.0
    link_stale_s: float = 5.0
    link_dead_s: float = 15.0
    stall_s: float = 0.5
    remembered_nodes: int = 256
    replicas: int = 0
    keep: dict[str, int] = {}
    placement_s: float = 0.25
    want_s: float = 5.0
    retry_ratio: float = 0.1
    retry_floor: int = 3
    retry_window_s: float = 10.0
    retry_attempts: int = 3
    quarantine_kills: int = 2
    redispatch_per_node: int = 2
    receipts_entries: int = 10_000
    receipts_ttl_s: float = 86_400.0
    busy_backoff_s: float = 0.25
    busy_backoff_max_s: float = 8.0
    busy_bounces: int = 8
    breaker_failures: int = 5
    breaker_ratio: float = 0.5
    breaker_window: int = 20
    breaker_open_s: float = 5.0
    breaker_open_max_s: float = 60.0
    breaker_successes: int = 2
    affinity_entries: int = 100_000
    affinity_ttl_s: float = 3600.0
    rate_window_s: float = 30.0
    retry_after_default_s: int = 5
    waiting_report_s: float = 1.0
    idle_tick_s: float = 30.0
    min_tick_s: float = 0.001


FOLLOWED = ("queue_length", "queue_wait_s", "max_decodes", "keep")
"""What may change while a gateway runs: everything else has been built upon."""


def followed(old: FleetSettings, new: FleetSettings) -> FleetSettings:
    """Return the settings in force, with what may change as it is in others."""
    return msgspec.structs.replace(old, **{name: getattr(new, name) for name in FOLLOWED})
