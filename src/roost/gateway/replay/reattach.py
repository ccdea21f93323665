"""SHELL: streams that can be attached to again by the id of their request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.core.ids import RequestId
from roost.errors import Failure, RoostError
from roost.fleet.streams.stream_log import ReattachSettings, StreamLogs
from roost.gateway.reading.asked import EVENT_HEADER, asked_event
from roost.gateway.replay.reel import ErrorEvent, Reel

if TYPE_CHECKING:
    from roost.core.ids import TenantId
    from roost.gateway.front.rendering import Headers
    from roost.gateway.routes import Call
    from roost.observe.metrics import Metrics

STREAM = "/stream"
"""The end of a request's address under which its stream is."""

NO_STREAM = Failure(
    "not_found", "No stream of this id can be attached to; ask for it with x-roost-reattach-s."
)
NO_HEAD = Failure("method_not_allowed", "Use GET at this address: it takes the stream over.")


class Reattach:
    """Every reel that somebody may come back for; `base_path` stands before every address."""

    def __init__(self, settings: ReattachSettings, metrics: Metrics, base_path: str = "") -> None:
        self.max_s = settings.max_s
        self._metrics = metrics
        self._logs = StreamLogs(settings)
        self._base_path = base_path
        self._reels: dict[RequestId, Reel] = {}

    def reel(self, call: Call, window_s: float, error: ErrorEvent) -> Reel | None:
        """Return an outlet that outlives the connection; None where there is no room for it."""
        request = call.exchange.request_id
        granted = self._logs.on_request(request, call.tenant, window_s)
        if granted is None:
            return None
        if granted.forgotten is not None:
            self._reels.pop(granted.forgotten).close()
        made = Reel(call.exchange, granted.log, error, lambda: self._forget(request))
        self._reels[request] = made
        return made

    def place(self, request: RequestId, tenant: TenantId) -> Headers:
        """Return the header that says where a request's stream is; none where it is nowhere."""
        if self._logs.find(request, tenant) is None:
            return []
        return [(b"location", f"{self._base_path}/roost/v1/requests/{request}{STREAM}".encode())]

    def stream(self, call: Call) -> None:
        """GET /roost/v1/requests/{id}/stream: take the stream over and go on from some event."""
        exchange = call.exchange
        try:
            wanted = asked_event(exchange.query, exchange.fields.get(EVENT_HEADER))
        except RoostError as error:
            exchange.fail(error.failure)
            return
        self.resume(call, RequestId(call.rest.removesuffix(STREAM)), wanted)

    def resume(self, call: Call, request: RequestId, wanted: int) -> None:
        """Have this call take a stream over, and go on from the event of this number."""
        exchange = call.exchange
        log = self._logs.find(request, call.tenant)
        if log is None:
            self._count("unknown")
            exchange.fail(NO_STREAM)
            return
        if exchange.head.method != "GET":
            exchange.fail(NO_HEAD)
            return
        if wanted > log.next:
            exchange.fail(Failure("bad_request", f"The next event is {log.next}.", "from"))
        elif self._reels[request].attach(exchange, wanted):
            self._count("resumed")
        else:
            self._count("events_gone")
            exchange.fail(Failure("events_gone", f"The first event kept is {log.first}.", "from"))

    def forget(self, request: RequestId, tenant: TenantId) -> None:
        """Nobody may come back to this stream any more: what it said is to be gone."""
        if self._logs.find(request, tenant) is not None:
            self._reels[request].close()
            self._forget(request)

    def give_up(self) -> None:
        """Wait for nobody any more: whoever was lost cannot come back to a gateway that drains."""
        for reel in list(self._reels.values()):
            reel.give_up()

    def _count(self, result: str) -> None:
        self._metrics("roost_reattach_total", result).inc()

    def _forget(self, request: RequestId) -> None:
        self._logs.forget(request)
        self._reels.pop(request, None)
