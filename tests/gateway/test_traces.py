"""Traces over a real socket: nothing without an endpoint, the caller's trace goes on, no harm."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from roost.core.trace import Span as CoreSpan
from roost.core.trace import Trace, TracingSettings
from roost.errors import RoostError
from roost.gateway.assemble import Kept, open_gateway
from roost.gateway.watching.traces import open_traces
from roost.observe.metrics import Metrics
from roost.observe.tracing import QUEUE_MAX, Tracer
from roost.store.credentials.usage import UsageStore
from roost.store.home import Home
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Stage, ask, staged
from tests.gateway.test_operations import HELLO

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PATH = "/v1/chat/completions"


class Collector:
    """An OTLP collector as far as it is needed: it takes what is posted, or refuses it."""

    def __init__(self, status: int = 200) -> None:
        self._status = status
        self._server: asyncio.Server | None = None
        self.bodies: list[bytes] = []
        self.paths: list[str] = []

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        assert self._server is not None
        self._server.close()

    @property
    def endpoint(self) -> str:
        """Where it is."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def spans(self) -> list[Span]:
        """Everything that has come."""
        found = []
        for body in self.bodies:
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                found += [span for scope in resource.scope_spans for span in scope.spans]
        return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        self.bodies.append(await reader.readexactly(length))
        self.paths.append(head.split()[1])
        writer.write(f"HTTP/1.1 {self._status} x\r\ncontent-length: 0\r\n\r\n".encode())
        writer.close()


@asynccontextmanager
async def traced(endpoint: str, share: float = 1.0) -> AsyncIterator[Stage]:
    """A gateway that has been told of a collector, and a node that answers."""
    settings = msgspec.structs.replace(SETTINGS, tracing=TracingSettings(endpoint, share))
    async with staged(settings) as stage:
        node = stage.add_node()
        node.on_open = lambda opened: node.answer(opened, "a", "b", cached=4)
        await stage.ready()
        yield stage


async def test_a_request_is_a_trace_below_its_callers() -> None:
    """Its phases are its children and lie within it; the library that sends it is told apart."""
    async with Collector() as collector:
        async with traced(collector.endpoint) as stage:
            header = f"00-{TRACE}-{CALLER}-01"
            reply = await ask(stage.port, "POST", PATH, HELLO, traceparent=header)
            assert reply.status == 200
            request = reply.headers["x-roost-request-id"]
            sent = stage.gateway.metrics
        # What was still to be sent has been, by the end of the gateway.
        spans = {span.name: span for span in collector.spans}
        assert set(spans) == {"request", "queue", "node", "prefill", "decode", "stream"}
        assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
        root = spans.pop("request")
        assert root.parent_span_id.hex() == CALLER
        facts = {one.key: one.value for one in root.attributes}
        assert facts["roost.request.id"].string_value == request
        assert facts["gen_ai.usage.output_tokens"].int_value == 2
        for span in spans.values():
            assert span.parent_span_id == root.span_id
            assert root.start_time_unix_nano <= span.start_time_unix_nano
            assert span.start_time_unix_nano <= span.end_time_unix_nano
            assert span.end_time_unix_nano <= root.end_time_unix_nano
        assert sent.value("roost_spans_total", "sent") == 6
        assert set(collector.paths) == {"/v1/traces"}
        assert b"hello" not in b"".join(collector.bodies)


async def test_a_caller_who_records_nothing_is_not_recorded() -> None:
    """Nor is anybody where the share is 0, but for those who say that they record."""
    async with Collector() as collector:
        async with traced(collector.endpoint, share=0.0) as stage:
            await ask(stage.port, "POST", PATH, HELLO, traceparent=f"00-{TRACE}-{CALLER}-00")
            await ask(stage.port, "POST", PATH, HELLO)
            wrong = await ask(stage.port, "POST", PATH, HELLO, traceparent="00-nonsense")
            assert wrong.status == 200
        assert collector.spans == []
        async with traced(collector.endpoint, share=0.0) as stage:
            await ask(stage.port, "POST", PATH, HELLO, traceparent=f"00-{TRACE}-{CALLER}-01")
        assert len(collector.spans) == 6


async def test_a_collector_that_refuses_costs_nobody_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Spans are lost and counted, requests are served, and nothing is written on stderr."""
    async with Collector(status=400) as collector:
        async with traced(collector.endpoint) as stage:
            assert (await ask(stage.port, "POST", PATH, HELLO)).status == 200
            metrics = stage.gateway.metrics
        assert metrics.value("roost_spans_total", "lost") == 6
    lines = capsys.readouterr().err.splitlines()
    assert all(msgspec.json.decode(line) for line in lines)


async def test_without_an_endpoint_nothing_is_traced() -> None:
    """Off is the default."""
    async with staged() as stage:
        assert stage.gateway.mind.traces is None
        node = stage.add_node()
        node.on_open = lambda opened: node.answer(opened, "a")
        await stage.ready()
        reply = await ask(stage.port, "POST", PATH, HELLO, traceparent=f"00-{TRACE}-{CALLER}-01")
        assert reply.status == 200
        await until(lambda: not stage.gateway.mind.turns, what="it has ended")
        assert stage.gateway.metrics.value("roost_spans_total", "sent") == 0


@pytest.mark.parametrize(
    "endpoint",
    [
        *("collector:4318", "ftp://collector", "http://", "x", "http://[::1", "http://c:x"),
        *("http://a..b", "http://a..b:99999", "http://.", f"http://{'a' * 64}", "http://a b"),
        *("http://a:0", "http://a\tb", "http://:4318"),
    ],
)
def test_an_address_that_is_none_is_refused(endpoint: str) -> None:
    """Before anything listens, with the name of the setting."""
    with pytest.raises(RoostError, match=r"otel\.endpoint needs http") as refused:
        open_traces(TracingSettings(endpoint), Metrics())
    assert refused.value.failure.param == "otel.endpoint"


def test_without_the_library_there_is_a_command_to_type() -> None:
    """A collector was named, so a gateway that cannot send to it does not begin."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from roost.core.trace import TracingSettings\n"
        "from roost.gateway.watching.traces import open_traces\n"
        "open_traces(TracingSettings('http://127.0.0.1:9'), None)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("roost.errors.RoostError: ")
    assert "otel.endpoint needs OpenTelemetry: pip install" in last
    assert "[otel]'" in last


def test_what_a_collector_does_not_take_in_time_is_lost_and_counted() -> None:
    """However much there is, and also what is left at the end; nobody waits for it."""
    metrics = Metrics()
    refused = threading.Event()
    tracer = Tracer(TracingSettings("http://unused"), metrics, Stuck(refused))
    trace = Trace(CoreSpan("request", 0.0, 1.0), (CoreSpan("queue", 0.0, 1.0),))
    for number in range(QUEUE_MAX):
        tracer.record(trace, 10**18 + number)
    lost = metrics.value("roost_spans_total", "lost")
    assert 0 < lost <= QUEUE_MAX
    refused.set()
    tracer.close()
    counts = [metrics.value("roost_spans_total", outcome) for outcome in ("sent", "lost")]
    assert sum(counts) == 2 * QUEUE_MAX


class Stuck(InMemorySpanExporter):
    """A collector that takes nothing until it is told to go on, and then refuses."""

    def __init__(self, refused: threading.Event) -> None:
        super().__init__()
        self._refused = refused

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Wait, then refuse."""
        self._refused.wait(10)
        return SpanExportResult.FAILURE


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("https://c/otlp", "https://c/otlp/v1/traces"),
        ("http://c:4318/v1/traces", "http://c:4318/v1/traces"),
    ],
)
def test_the_address_for_traces(endpoint: str, url: str) -> None:
    """With the usual path, once."""
    assert TracingSettings(endpoint).url == url


async def test_a_gateway_that_cannot_be_made_keeps_nothing_open(tmp_path: Path) -> None:
    """What it was given to keep things in is closed with the attempt."""
    usage = UsageStore.open(Home.open(tmp_path))
    settings = msgspec.structs.replace(SETTINGS, tracing=TracingSettings("ftp://nowhere"))
    with pytest.raises(RoostError, match=r"otel\.endpoint"):
        await open_gateway(settings, kept=Kept(usage=usage))
    with pytest.raises(RoostError):
        usage.since(0)
