"""DECIDER: what a refused client is told, and when it should come back."""

from __future__ import annotations

import math

from roost.core.ids import ModelId
from roost.errors import Failure

_LONGEST_S = 120


def hint_s(eta_s: float | None, default_s: int) -> int:
    """Whole seconds, 1..120, until a place should be free; None means not measured."""
    return default_s if eta_s is None else min(_LONGEST_S, max(1, math.ceil(eta_s)))


def queue_full(hint_s: int, waiting: int = 0, eta_s: float | None = None) -> Failure:
    """All places are taken and nobody more may wait."""
    ahead = f" {waiting} requests wait." if waiting else ""
    about = "" if eta_s is None else f" A place should be free in about {math.ceil(eta_s)} s."
    return Failure(
        "queue_full",
        f"All capacity is in use and the queue is full.{ahead}{about} Retry later.",
        retry_after_s=hint_s,
    )


def too_late(timeout_s: float, eta_s: float, position: int, hint_s: int) -> Failure:
    """The client's own time limit would pass in the line."""
    return Failure(
        "deadline",
        f"The deadline of {timeout_s:g} s cannot be met: position {position} in the queue means "
        f"about {math.ceil(eta_s)} s. Allow more time or retry later.",
        retry_after_s=hint_s,
    )


def queue_timeout(waited_s: float, hint_s: int) -> Failure:
    """Nothing became free in the time a request may wait."""
    return Failure(
        "queue_timeout",
        f"No capacity became free within {waited_s:.0f} s. Retry later.",
        retry_after_s=hint_s,
    )


def deadline(timeout_s: float) -> Failure:
    """The client's own time limit has passed."""
    return Failure(
        "deadline", f"The request's deadline of {timeout_s:g} s passed before it was complete."
    )


def model_not_found(model: ModelId) -> Failure:
    """No node has, or had, a model of this name."""
    return Failure(
        "model_not_found",
        f"The model `{model}` does not exist or is not installed on any node.",
        param="model",
    )


def turns_only(model: ModelId) -> Failure:
    """Whoever has the model speaks a protocol in which this cannot be asked."""
    return Failure(
        "unsupported",
        f"The model `{model}` is served by workers of system 1 alone. They take turns of "
        "`/coordinator/infer`, and sampling and stop strings only where they say so.",
        param="model",
    )


def session_gone(why: str) -> Failure:
    """The KV that the request insists on is not to be had."""
    reasons = {
        "home_gone": "the node that held it is not connected",
        "home_closed": "the node that holds it takes no more work",
        "runtime_gone": "the runtime that held it has ended",
        "runtime_replaced": "the runtime that held it has ended",
        "evicted": "the node that held it does not have it any more",
    }
    return Failure(
        "session_gone",
        "This conversation's state is required and gone: "
        f"{reasons.get(why, 'nobody here knows where it is')}. Send it without "
        "`x-roost-affinity: require` to have it computed anew.",
    )


def cancelled() -> Failure:
    """Somebody with the right to do so stopped the request."""
    return Failure("cancelled", "The request was cancelled.")


def no_nodes(model: ModelId, hint_s: int) -> Failure:
    """The model exists, but nobody who has it is connected."""
    return Failure(
        "no_nodes",
        f"No connected node can serve the model `{model}` now. Retry later.",
        retry_after_s=hint_s,
    )


def nobody_connected(hint_s: int) -> Failure:
    """There is no node at all, or none that has said yet what it has."""
    return Failure(
        "no_nodes", "No node is connected and ready yet. Retry later.", retry_after_s=hint_s
    )


def stopped(hint_s: int) -> Failure:
    """The gateway's grace ran out while the request was served."""
    message = "This instance was stopped before the answer was complete."
    return Failure("draining", message, retry_after_s=hint_s)


def draining(hint_s: int) -> Failure:
    """This gateway is on its way out."""
    return Failure(
        "draining",
        "This instance is shutting down and takes no new requests.",
        retry_after_s=hint_s,
    )


def node_lost() -> Failure:
    """The node went silent or away while it served the request."""
    return Failure("node_lost", "The node that served this request was lost. Send it again.")


def node_dead(silent_s: float) -> Failure:
    """Why the gateway closes a link."""
    return Failure("node_lost", f"Nothing was heard from this node for {silent_s:.0f} s.")


def link_replaced() -> Failure:
    """Why the gateway closes the older of two links."""
    return Failure("node_lost", "A newer link of the same node has replaced this one.")
