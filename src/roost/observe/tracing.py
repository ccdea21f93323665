"""SHELL: traces on their way to a collector; the only module that imports OpenTelemetry.

Nothing is sent anywhere but to the endpoint that somebody has named. Sending is a thread's work,
and what cannot be sent in time is dropped and counted: a collector that is away costs nobody else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from roost import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from roost.core.trace import Parent, Span, Trace, TracingSettings
    from roost.observe.metrics import Instrument, Metrics

QUEUE_MAX = 2048
BATCH_MAX = 512
EVERY_MS = 1000.0
TIMEOUT_S = 5.0
END_S = 2.0
"""So long an end waits for what is still to be sent."""


class _Counted(SpanExporter):
    """Counts what another exporter did with spans; it speaks from a thread of its own."""

    def __init__(self, exporter: SpanExporter, sent: Instrument, lost: Instrument) -> None:
        self._exporter = exporter
        self._sent = sent
        self._lost = lost
        self.handled = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send, and count."""
        result = self._exporter.export(spans)
        counter = self._sent if result is SpanExportResult.SUCCESS else self._lost
        counter.inc(len(spans))
        self.handled += len(spans)
        return result

    def shutdown(self) -> None:
        """Send nothing more."""
        self._exporter.shutdown()


class Tracer:
    """Records requests that are over; `close` ends it."""

    def __init__(
        self, settings: TracingSettings, metrics: Metrics, exporter: SpanExporter | None = None
    ) -> None:
        # It would write tracebacks to stderr for each batch that a collector does not take.
        library = logging.getLogger("opentelemetry")
        library.propagate = False
        library.addHandler(logging.NullHandler())
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.share)),
            resource=Resource.create({"service.name": "roost", "service.version": __version__}),
            shutdown_on_exit=False,
        )
        self._lost = metrics("roost_spans_total", "lost")
        self._exporter = _Counted(
            exporter or OTLPSpanExporter(settings.url, timeout=TIMEOUT_S),
            metrics("roost_spans_total", "sent"),
            self._lost,
        )
        # Written by the loop's thread alone, as the other count is by the exporter's.
        self._recorded = 0
        self._provider.add_span_processor(
            BatchSpanProcessor(self._exporter, QUEUE_MAX, EVERY_MS, BATCH_MAX)
        )
        self._tracer = self._provider.get_tracer("roost", __version__)

    def record(self, trace: Trace, ended_ns: int) -> None:
        """Record a request that ended at this wall time; all of it is lost where too much waits."""
        if self._waiting + 1 + len(trace.phases) > QUEUE_MAX:
            self._lost.inc(1 + len(trace.phases))
            return
        began_ns = ended_ns - round(1e9 * trace.request.end_s)
        context = None if trace.parent is None else _context(trace.parent)
        inside = self._record(trace.request, began_ns, context, SpanKind.SERVER)
        for phase in trace.phases:
            self._record(phase, began_ns, inside, SpanKind.INTERNAL)

    def _record(
        self, span: Span, began_ns: int, context: Context | None, kind: SpanKind
    ) -> Context:
        made = self._tracer.start_span(
            span.name,
            context,
            kind,
            span.facts,
            start_time=began_ns + round(1e9 * span.start_s),
            record_exception=False,
        )
        if span.failure:
            made.set_status(Status(StatusCode.ERROR, span.failure))
        self._recorded += made.is_recording()
        made.end(began_ns + round(1e9 * span.end_s))
        return set_span_in_context(made)

    def close(self) -> None:
        """Send what is left, for `END_S` at most; a collector that does not answer loses it."""
        # A daemon: the process does not wait for what the library may still try.
        last = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        last.start()
        last.join(END_S)
        self._lost.inc(self._waiting)
        self._recorded = self._exporter.handled

    @property
    def _waiting(self) -> int:
        """Spans that are neither sent nor lost yet."""
        return self._recorded - self._exporter.handled


def _context(parent: Parent) -> Context:
    flags = TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT)
    remote = SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(remote))
