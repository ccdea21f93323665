"""DECIDER: every runtime of the fleet as `/roost/v1/runtimes` and `/observability` show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from roost.core.about import RuntimeAbout
from roost.core.ids import NodeId
from roost.core.snapshots import RuntimeView
from roost.fleet.watching.views import NodeView


class RuntimeLine(msgspec.Struct, frozen=True):
    """One model's runtime on one node, or why there is none, with its own figures.

    `kv_tokens` is what its slots hold, `kv_bytes` what that takes; None where nobody knows.
    """

    node: NodeId
    view: RuntimeView
    figures: RuntimeAbout | None
    kv_tokens: int | None
    kv_bytes: int | None


class BackendSample(msgspec.Struct, frozen=True):
    """One runtime in the words of telemetry; what is not known is left out of `gauges`."""

    backend: str
    instance: str
    node: NodeId
    model: str
    available: bool
    gauges: dict[str, float]


def runtime_lines(nodes: Iterable[NodeView]) -> Iterator[RuntimeLine]:
    """List the runtimes that nodes last reported."""
    for node in nodes:
        abouts = node.about.runtimes if node.about is not None else ()
        figures = {one.runtime: one for one in abouts}
        token_bytes = {offer.model: offer.kv_token_bytes for offer in node.models}
        for view in node.runtimes:
            held = sum(slot.tokens for slot in view.slots) if view.slots else None
            each = token_bytes.get(view.model)
            yield RuntimeLine(
                node.id,
                view,
                figures.get(view.runtime) if view.runtime is not None else None,
                held,
                None if held is None or each is None else held * each,
            )


def backend_samples(lines: Iterable[RuntimeLine]) -> Iterator[BackendSample]:
    """Show runtimes as telemetry."""
    for line in lines:
        view = line.view
        gauges = dict(_gauges(line))
        yield BackendSample(
            backend=view.backend,
            instance=view.runtime or "",
            node=line.node,
            model=view.model,
            available=view.state == "ready",
            gauges=gauges,
        )


def _gauges(line: RuntimeLine) -> Iterator[tuple[str, float]]:
    view, figures = line.view, line.figures
    known: dict[str, float | None] = {
        "kv_tokens": line.kv_tokens,
        "kv_bytes": line.kv_bytes,
        "load_seconds": view.load_s,
        "waiting": view.waiting,
    }
    if view.slots:
        known |= {"slots": len(view.slots), "slots_busy": sum(slot.busy for slot in view.slots)}
    if figures is not None:
        known |= {
            "live": figures.live,
            "rss_bytes": figures.rss_bytes,
            "prefill_tokens_per_second": figures.prefill_tokens_per_s,
            "decode_tokens_per_second": figures.decode_tokens_per_s,
            "step_tokens": figures.step_tokens,
        }
    for name, value in known.items():
        if value is not None:
            yield name, value
