"""WIRING: a fleet gateway from its parts: coordinator, mind, routes, links, listener."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from roost.core.trace import TracingSettings
from roost.dialects.system1.infer_views import Caps
from roost.errors import Failure
from roost.fleet.conversations.handoffs import HandoffSettings
from roost.fleet.coordinator import Coordinator
from roost.fleet.nodes.handover import HandoverSettings
from roost.fleet.settings import FleetSettings, followed
from roost.fleet.streams.idempotency import IdempotencySettings
from roost.fleet.streams.stream_log import ReattachSettings
from roost.fleet.watching.scaling import ScalingSettings
from roost.fleet.watching.telemetry import TelemetrySettings
from roost.gateway.conversations.archive import Archive, ArchiveSettings
from roost.gateway.conversations.compactor import Compactor
from roost.gateway.conversations.infer import Infer, InferSettings
from roost.gateway.conversations.infer_outlet import errors_by_path
from roost.gateway.conversations.responses import Responses
from roost.gateway.desk.admin import Admin
from roost.gateway.desk.control import Control
from roost.gateway.desk.conversations import ConversationViews
from roost.gateway.desk.description import Description, of_fleet
from roost.gateway.desk.handoffs import HandoffDesk
from roost.gateway.desk.ollama import OllamaViews
from roost.gateway.desk.operations import Operations
from roost.gateway.desk.ordering import Ordering
from roost.gateway.desk.pages import COORDINATOR, DOCS, HOME, Pages, WebFile, read_web
from roost.gateway.desk.state_desk import StateDesk
from roost.gateway.entry.identity import Identity, IdentitySettings
from roost.gateway.failures import errors_under
from roost.gateway.foreign.guests import Guests, GuestSettings
from roost.gateway.front import defects
from roost.gateway.front.access import Allowed, Authorise, Gate, allowed, anyone, origins
from roost.gateway.front.guard import guarded
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.front.server import Front, open_front
from roost.gateway.generation import Generation, GenerationSettings
from roost.gateway.handover import Handovers
from roost.gateway.mind import Mind
from roost.gateway.node_link import GatewayLinkSettings, NodeLink
from roost.gateway.node_socket import SocketConnection
from roost.gateway.replay.lifelines import Lifelines
from roost.gateway.replay.reattach import Reattach
from roost.gateway.routes import Places, Routes
from roost.gateway.tasks import Tasks
from roost.gateway.turns.limiter import Limiter, LimiterSettings, UsageKeeper
from roost.gateway.watching.traces import open_traces
from roost.gateway.worker_views import WorkerViews
from roost.observe import logs
from roost.observe.metrics import Metrics
from roost.wire.messages import LINK_PATH

if TYPE_CHECKING:
    from roost.gateway.front.asgi import Receive, Scope, Send
    from roost.store.conversations.journal import Journal
    from roost.store.credentials.usage import UsageStore
    from roost.wire.memory import GatewayConnection


class GatewaySettings(msgspec.Struct, frozen=True):
    """Everything a fleet gateway is told; `name` is its name in handshakes and logs."""

    name: str
    fleet: FleetSettings
    generation: GenerationSettings
    link: GatewayLinkSettings
    listener: Listener
    limits: FrontLimits
    allowed_hosts: tuple[str, ...] = ()
    places: Places = Places()
    idempotency: IdempotencySettings = IdempotencySettings()
    reattach: ReattachSettings = ReattachSettings()
    infer: InferSettings = InferSettings()
    archive: ArchiveSettings = ArchiveSettings()
    identity: IdentitySettings = IdentitySettings()
    handover: HandoverSettings = HandoverSettings()
    handoffs: HandoffSettings = HandoffSettings()
    guests: GuestSettings = GuestSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    scaling: ScalingSettings = ScalingSettings()
    tracing: TracingSettings = TracingSettings()
    limiter: LimiterSettings = LimiterSettings()
    origins: tuple[str, ...] = ()


class Kept(NamedTuple):
    """What outlives a gateway, each None where nothing of it is kept; closed with the gateway.

    `journal` has what is said in named conversations, `usage` what keys have used.
    """

    journal: Journal | None = None
    usage: UsageStore | None = None

    def close(self) -> None:
        """Let go of all of it; for a gateway that was never made."""
        for one in (self.journal, self.usage):
            if one is not None:
                one.close()


class Gateway:
    """One running fleet gateway; made by `open_gateway`, ended by `close`."""

    def __init__(
        self,
        settings: GatewaySettings,
        authorise: Authorise,
        admit: Authorise,
        kept: Kept,
    ) -> None:
        self._settings = settings
        self._admit = admit
        self._log = logs.get()
        self.metrics = Metrics()
        # Ties between equal nodes: any source will do, and the simulator passes its own.
        dice = random.Random()
        coordinator = Coordinator(settings.fleet, dice)
        limiter = Limiter(settings.limiter, self.metrics)
        aliases = settings.generation.aliases
        limiter.allowances.aliases = aliases
        watched = settings.telemetry, limiter, settings.scaling
        self.mind = Mind(coordinator, self.metrics, self._log, *watched)
        self.mind.traces = open_traces(settings.tracing, self.metrics)
        # From here on what is said of the fleet is kept for those who look on.
        self._log = self.mind.log
        self._usage: UsageKeeper | None = None
        if kept.usage is not None:
            self._usage = UsageKeeper(limiter, kept.usage, settings.limiter.save_s, self._log)
        self._tasks = Tasks()
        self._reattach = Reattach(settings.reattach, self.metrics, settings.places.base_path)
        lifelines = Lifelines(self.mind, settings.idempotency, self._reattach)
        identity = Identity(settings.identity, self.metrics, self._log)
        self._archive = Archive(kept.journal, settings.archive, self.metrics, self._log)
        self._responses = Responses(self.mind, self._archive, self._reattach)
        self._generation = Generation(
            self.mind, self._tasks, settings.generation, lifelines, identity, self._responses
        )
        self._compactor = Compactor(
            self.mind, self._archive, settings.infer.compaction, identity.label
        )
        self.infer = Infer(
            self.mind, self._archive, settings.infer, lifelines, identity, self._compactor
        )
        self._guests = Guests(settings.guests, self.mind, self.join)
        self._handovers = Handovers(
            self.mind, self._archive, self.infer, self._compactor, settings.handover
        )
        self._ordering = Ordering(self.mind, aliases)
        self._states = StateDesk(self.mind)
        self._handoffs = HandoffDesk(
            self.mind, settings.handoffs, aliases, settings.generation.relay
        )
        self._gate = Gate(self._allowed(), authorise, origins(settings.origins))
        self._admin = Admin(self.mind, aliases)
        self.routes: Routes | None = None
        self.front: Front | None = None

    async def open(self) -> Front:
        """Bind and accept clients and nodes."""
        if self._usage is not None:
            self._usage.load()
            self._tasks.start(self._usage.run(), "usage")
        app = guarded(self._websocket, self._gate, websocket=self._admit)
        settings = self._settings
        self.routes = self._routes(await asyncio.to_thread(read_web))
        self.front = await open_front(
            app,
            settings.listener,
            settings.limits,
            direct=self.routes,
            errors=errors_by_path(
                settings.places.base_path,
                errors_under(settings.places.inside),
                legacy_503=settings.infer.legacy_503,
            ),
        )
        self._log.info("listening", url=self.front.url)
        return self.front

    def join(self, connection: GatewayConnection) -> None:
        """Serve a node over this connection, until it ends."""
        self._tasks.start(self._serve_link(connection), "node link")

    def use(self, settings: GatewaySettings) -> None:
        """Go by these from now on, as far as they may change while a gateway runs.

        What has come already keeps what it was taken in with.
        """
        told = settings.infer
        infer = msgspec.structs.replace(
            self._settings.infer,
            relay=told.relay,
            body_max_bytes=told.body_max_bytes,
            strict=told.strict,
            aliases=told.aliases,
            release_wait_s=told.release_wait_s,
        )
        self._settings = msgspec.structs.replace(
            self._settings,
            fleet=followed(self._settings.fleet, settings.fleet),
            generation=settings.generation,
            infer=infer,
        )
        aliases = settings.generation.aliases
        self._admin.aliases = self._ordering.aliases = self._handoffs.aliases = aliases
        self._handoffs.relay = settings.generation.relay
        self.mind.limiter.allowances.aliases = aliases
        self._gate.origins = origins(settings.origins)
        self._generation.use(settings.generation)
        self.infer.use(infer)
        self.mind.use(settings.fleet)
        if self.front is not None:
            self.front.use(settings.limits)

    async def drain(self, grace_s: float) -> bool:
        """Take nothing new and let what runs end; False if `grace_s` was not enough."""
        self.mind.drain()
        self._reattach.give_up()
        drained = self.front is None or await self.front.drain(grace_s)
        if not drained:
            self.mind.drain_end()
        return drained

    async def close(self, grace_s: float) -> None:
        """Take nothing new, let what runs end within `grace_s`, then end everything."""
        self.mind.drain()
        self._reattach.give_up()
        if self.front is not None:
            await self.front.close(grace_s)
        self._reattach.give_up()
        self._handovers.close()
        self._ordering.close()
        self._states.close()
        self.mind.close()
        self.infer.close()
        self._compactor.close()
        await self._archive.close()
        await self._guests.close()
        if self.mind.traces is not None:
            await asyncio.to_thread(self.mind.traces.close)
        await self._tasks.close()
        await self._generation.close()
        if self._usage is not None:
            await self._usage.close()

    def _routes(self, web: dict[str, WebFile]) -> Routes:
        routes = Routes(self._gate, self._settings.places, self.mind.limiter.headers)
        pages = [*HOME.items(), *COORDINATOR.items(), *DOCS.items()]
        Pages(web, pages, self._settings.places.base_path).add_to(routes)
        Description(self._tasks, self._settings.places.base_path, of_fleet).add_to(routes)
        self._admin.add_to(routes)
        Operations(self.mind, self._reattach, self._ordering).add_to(routes)
        Control(self.mind).add_to(routes)
        self._handoffs.add_to(routes)
        self._states.add_to(routes)
        WorkerViews(self.mind, self._guests, self._tasks, self._caps).add_to(routes)
        self._guests.add_to(routes, self._admit)
        routes.add("POST", "/coordinator/infer", self.infer.infer)
        ConversationViews(self._archive, self.infer.conversations).add_to(routes)
        self._generation.add_to(routes)
        self._responses.add_to(routes)
        OllamaViews(self.mind, self._admin.listed).add_to(routes)
        return routes

    def _caps(self) -> Caps:
        fleet = self._settings.fleet
        return Caps(fleet.max_decodes, fleet.max_decodes_per_node)

    def _allowed(self) -> Allowed:
        return allowed(self._settings.listener.host, self._settings.allowed_hosts)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = self._settings.places.inside(scope["path"])
        if scope["type"] != "websocket" or path != LINK_PATH:
            await send({"type": "websocket.close", "code": 1000})
            return
        self._log.info("join_admitted", token=scope["principal"].tenant)
        connection = SocketConnection(receive, send, self._settings.link.message_max_bytes)
        # The front cancels what is left when it closes; whoever ran this has nothing to add then.
        with suppress(asyncio.CancelledError):
            await connection.accept()
            await self._serve_link(connection)

    async def _serve_link(self, connection: GatewayConnection) -> None:
        link = NodeLink(connection, self._settings.link, self.mind)
        try:
            ended: Failure = await link.run()
        except Exception as error:  # noqa: BLE001 - one link's defect is not the gateway's end
            defects.report(error)
            return
        if not link.node:
            self._log.warning("node_refused", reason=ended.message)


async def open_gateway(
    settings: GatewaySettings,
    authorise: Authorise = anyone,
    admit: Authorise = anyone,
    kept: Kept = Kept(),  # noqa: B008 - a tuple
) -> Gateway:
    """Start a gateway; `OSError` where the address is taken.

    `authorise` checks API keys, `admit` the join tokens of nodes. What is `kept` is closed with the
    gateway, also with one that cannot open or be made.
    """
    try:
        gateway = Gateway(settings, authorise, admit, kept)
    except BaseException:
        kept.close()
        raise
    try:
        await gateway.open()
    except BaseException:
        await gateway.close(0.0)
        raise
    return gateway
