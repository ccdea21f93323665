"""WIRING: the stateless gateway from its parts: listener, gate, pool, probes, routes of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from roost.fleet.upstream.pool import PoolSettings, UpstreamPool
from roost.gateway.desk.description import Description
from roost.gateway.desk.operations import DRAIN, change_node, sees_tenants
from roost.gateway.desk.pages import DOCS, HOME, Pages, WebFile, read_web
from roost.gateway.failures import errors_under
from roost.gateway.front.access import Authorise, Gate, allowed, anyone, origins
from roost.gateway.front.asgi import Receive, Scope, Send
from roost.gateway.front.defects import report
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.front.rendering import JSON_BODY
from roost.gateway.front.server import Front, open_front
from roost.gateway.routes import Call, Places, Routes
from roost.gateway.tasks import Tasks
from roost.gateway.turns.limiter import Limiter, LimiterSettings
from roost.gateway.upstream import elsewhere
from roost.gateway.upstream.client import ClientLimits
from roost.gateway.upstream.fleet_view import fleet_view, server_view
from roost.gateway.upstream.passage import PassageLimits
from roost.gateway.upstream.probe import ProbePace, keep_probing
from roost.gateway.upstream.proxy import Proxy
from roost.gateway.upstream.servers import Server, Servers
from roost.gateway.upstream.targets import Target
from roost.observe import logs
from roost.observe.metrics import CONTENT_TYPE, Metrics

if TYPE_CHECKING:
    from roost.fleet.watching.views import NodeView


class UpstreamSettings(msgspec.Struct, frozen=True):
    """Everything the stateless gateway is told. `probe_path` "" tries the usual ones.

    `aliases` are other names of models.
    """

    targets: tuple[Target, ...]
    listener: Listener = Listener()
    limits: FrontLimits = FrontLimits()
    pool: PoolSettings = PoolSettings()
    passage: PassageLimits = PassageLimits()
    client: ClientLimits = ClientLimits()
    allowed_hosts: tuple[str, ...] = ()
    places: Places = Places()
    probe_path: str = ""
    models_s: float = 30.0
    tick_s: float = 0.25
    report_s: float = 20.0
    aliases: dict[str, str] = {}
    limiter: LimiterSettings = LimiterSettings()
    origins: tuple[str, ...] = ()


class UpstreamGateway:
    """One running stateless gateway; made by `open_upstream_gateway`, ended by `close`."""

    def __init__(self, settings: UpstreamSettings, authorise: Authorise) -> None:
        self._settings = settings
        self._log = logs.get()
        self.metrics = Metrics()
        self.pool = UpstreamPool([t.name for t in settings.targets], settings.pool)
        servers = Servers(settings.targets, settings.client)
        # Ties between equal servers: any source will do.
        dice = random.Random()
        self._proxy = Proxy(self.pool, servers, settings.passage, dice, self.metrics, self._log)
        self._proxy.limiter = Limiter(settings.limiter, self.metrics)
        self._proxy.call_also(settings.aliases)
        names = allowed(settings.listener.host, settings.allowed_hosts)
        self._gate = Gate(names, authorise, origins(settings.origins))
        self._tasks = Tasks()
        self._probing: dict[str, asyncio.Task[None]] = {}
        self.front: Front | None = None
        self.routes: Routes | None = None

    async def open(self) -> Front:
        """Bind, accept clients and begin to probe."""
        settings = self._settings
        web = await asyncio.to_thread(read_web)
        self.routes = self._routes(web)
        self.front = await open_front(
            _no_asgi,
            settings.listener,
            settings.limits,
            direct=self.routes,
            errors=errors_under(settings.places.inside),
        )
        for server in self._proxy.servers.current:
            self._probe(server)
        self._tasks.start(_every(settings.tick_s, self._proxy.on_tick), "tick")
        self._tasks.start(_every(settings.report_s, self._report), "report")
        limit = settings.pool.max_in_flight
        self._log.info(
            "listening", url=self.front.url, servers=len(settings.targets), max_in_flight=limit
        )
        return self.front

    def use(self, targets: Sequence[Target]) -> None:
        """Change the list of servers; `ValueError` unless there are some, each with its own name.

        New ones are probed and used; those that are missing get nothing new, and are forgotten
        when what runs there has ended.
        """
        names = [target.name for target in targets]
        if not names or len(set(names)) != len(names):
            raise ValueError("a list of servers has at least one, each with a name of its own")
        changed = {server.name for server in self._proxy.use(targets)}
        for name in self._probing.keys() - (set(names) - changed):
            self._probing.pop(name).cancel()
        for name in names:
            if name not in self._probing:
                self._probe(self._proxy.servers[name])
        self._log.info("upstream_list", servers=len(names))

    def follow(self, settings: UpstreamSettings) -> None:
        """Go by these from now on, as far as they may change; `use` is for the servers."""
        self._proxy.call_also(settings.aliases)
        self._gate.origins = origins(settings.origins)
        if self.front is not None:
            self.front.use(settings.limits)

    def _probe(self, server: Server) -> None:
        settings = self._settings
        pace = ProbePace(settings.probe_path, settings.pool.probe_s, settings.models_s)
        probing = keep_probing(self._proxy, server, pace)
        self._probing[server.name] = self._tasks.start(probing, f"probe {server.name}")

    async def drain(self, grace_s: float) -> bool:
        """Take nothing new and let what runs end; False if `grace_s` was not enough."""
        return self.front is None or await self.front.drain(grace_s)

    async def close(self, grace_s: float) -> bool:
        """Take nothing new, let what runs end within `grace_s`; False if something was cut off."""
        drained = self.front is None or await self.front.close(grace_s)
        await self._tasks.close()
        self._proxy.close()
        return drained

    def _routes(self, web: dict[str, WebFile]) -> Routes:
        places = self._settings.places
        routes = Routes(self._gate, places, self._proxy.limiter.headers)
        Pages(web, [*HOME.items(), *DOCS.items()], places.base_path).add_to(routes)
        self._proxy.add_to(routes, self._tasks)
        routes.add(
            "GET", "/health", lambda call: call.exchange.reply(200, JSON_BODY, _status("ok"))
        )
        routes.add("GET", "/ready", self._ready)
        routes.add("GET", "/metrics", self._metrics)
        routes.add("GET", "/roost/v1/fleet", self._fleet)
        routes.add("POST", "/roost/v1/nodes/{rest}", self._node)
        Description(self._tasks, places.base_path, _described).add_to(routes)
        elsewhere.add_to(routes)
        return routes

    def _ready(self, call: Call) -> None:
        # Draining needs no case here: the front refuses whatever comes during it.
        if self.pool.ready:
            call.exchange.reply(200, JSON_BODY, _status("ready"))
        else:
            call.exchange.fail(self.pool.unavailable())

    def _fleet(self, call: Call) -> None:
        view = fleet_view(self.pool.statistics(), self._settings.pool.max_in_flight)
        call.exchange.reply(200, JSON_BODY, msgspec.json.encode(view))

    def _node(self, call: Call) -> None:
        change_node(call, self._view, self._park, self._log)

    def _park(self, name: str, verb: str) -> None:
        self._proxy.park(name, parked=verb == DRAIN)

    def _view(self, name: str) -> NodeView | None:
        return server_view(self.pool.statistics(), name, self._settings.pool.max_in_flight)

    def _metrics(self, call: Call) -> None:
        view = self.pool.statistics()
        self.metrics("roost_queued").set(view.queued)
        for server in view.servers:
            self.metrics("roost_in_flight", server.server).set(server.in_flight)
            healthy = server.health == "healthy"
            self.metrics("roost_upstream_healthy", server.server).set(healthy)
            self.metrics("roost_upstream_stalled", server.server).set(server.stalled)
        headers = [(b"content-type", CONTENT_TYPE.encode())]
        call.exchange.reply(200, headers, self.metrics.render(tenants=sees_tenants(call)))

    def _report(self) -> None:
        view = self.pool.statistics()
        for server in view.servers:
            facts = msgspec.structs.asdict(server)
            # Every line would be as long as the list.
            del facts["models"]
            self._log.info("upstream_report", **facts)
        self._log.info("upstream_report", rejected=view.rejected, unavailable=view.unavailable)


def _described(base_path: str) -> bytes:
    from roost.gateway.desk.openapi import document
    from roost.gateway.upstream.addresses import IN_FRONT

    return document(base_path, IN_FRONT)


def _status(word: str) -> bytes:
    return msgspec.json.encode({"status": word})


async def _every(seconds: float, action: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            action()
        except Exception as error:  # noqa: BLE001 - one bad tick must not be the last one
            report(error)


async def _no_asgi(scope: Scope, _receive: Receive, send: Send) -> None:
    """Refuse what is not for the routes: a WebSocket, since everything else is."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})


async def open_upstream_gateway(
    settings: UpstreamSettings, authorise: Authorise = anyone
) -> UpstreamGateway:
    """Start a gateway; `OSError` where the address is taken."""
    gateway = UpstreamGateway(settings, authorise)
    await gateway.open()
    return gateway


async def run_upstream_gateway(
    settings: UpstreamSettings,
    authorise: Authorise = anyone,
    on_ready: Callable[[UpstreamGateway], None] = lambda _: None,
) -> None:
    """Run a gateway until this is cancelled or somebody calls its `close`."""
    gateway = await open_upstream_gateway(settings, authorise)
    try:
        on_ready(gateway)
        assert gateway.front is not None, "opened without a listener"
        await gateway.front.wait_closed()
    finally:
        await gateway.close(0)
