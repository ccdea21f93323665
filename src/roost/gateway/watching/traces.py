"""SHELL: requests that are over become traces, where somebody has named a collector."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from roost.backends.install import install_command
from roost.core.hosts import is_host
from roost.errors import fail
from roost.fleet.watching.tracing import Ended, trace_of

if TYPE_CHECKING:
    from roost.core.trace import TracingSettings
    from roost.fleet.watching.receipts import Receipt
    from roost.gateway.turns.turn import Turn
    from roost.observe.metrics import Metrics
    from roost.observe.tracing import Tracer

EXTRA = "otel"


class Traces:
    """Told of each turn that has ended."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def record(self, turn: Turn, receipt: Receipt | None, now: float) -> None:
        """Record a turn that ends now."""
        since_s, admitted_s, text_s = turn.arrived_s, turn.admitted_s, turn.first_text_s
        ended = Ended(
            turn.terms.request_id,
            turn.request.model,
            turn.dialect,
            str(turn.relay.outcome),
            turn.spent,
            now - since_s,
            None if admitted_s is None else admitted_s - since_s,
            None if text_s is None else text_s - since_s,
            turn.terms.trace,
            turn.missed,
        )
        self._tracer.record(trace_of(ended, receipt), time.time_ns())

    def close(self) -> None:
        """Send what is left, for a moment."""
        self._tracer.close()


def check_collector(endpoint: str) -> None:
    """Refuse an address that is none; "" is nobody's, and fine. Raises `bad_request`."""
    try:
        parts = urlsplit(endpoint)
        named = is_host(parts.hostname or "") and " " not in endpoint and endpoint.isprintable()
        is_whole = parts.scheme in ("http", "https") and named and parts.port != 0
    except ValueError:
        is_whole = False
    if endpoint and not is_whole:
        message = "otel.endpoint needs http://HOST:PORT or https://HOST:PORT."
        raise fail("bad_request", message, param="otel.endpoint")


def open_traces(settings: TracingSettings, metrics: Metrics) -> Traces | None:
    """Make what traces go through; None where no collector is named.

    Raises `bad_request` for an address that is none, `unsupported` where the library is missing.
    """
    if not settings.endpoint:
        return None
    check_collector(settings.endpoint)
    try:
        from roost.observe.tracing import Tracer
    except ModuleNotFoundError:
        message = f"otel.endpoint needs OpenTelemetry: {install_command(EXTRA)}"
        raise fail("unsupported", message, param="otel.endpoint") from None
    return Traces(Tracer(settings, metrics))
