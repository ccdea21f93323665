"""SHELL: keeps a node joined to a gateway: dial, serve, and dial again with growing pauses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from roost.errors import Fault, RoostError
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import NodeEnd
from roost.wire.link_tables import Close
from roost.wire.messages import Cancel, Credit, FromGateway, FromNode, Hello, Open, Welcome
from roost.wire.pump import Pump, PumpSettings

if TYPE_CHECKING:
    from roost.node.loop import NodeLoop
    from roost.wire.memory import NodeConnection


class JoinSettings(msgspec.Struct, frozen=True):
    """`first_s` before dialling again, doubled up to `max_s`, and jittered so that nodes spread."""

    first_s: float = 0.2
    max_s: float = 5.0
    link: LinkSettings = LinkSettings()


class Joined:
    """One link of a node, from the greeting to its end."""

    def __init__(
        self, node: NodeLoop, connection: NodeConnection, hello: Hello, link: LinkSettings
    ) -> None:
        clock = asyncio.get_running_loop().time
        end = NodeEnd(hello, link, clock())
        self._node = node
        self._number: int | None = None
        self._pump: Pump[FromNode, FromGateway] = Pump(
            end, connection, self._deliver, PumpSettings(), clock
        )
        self._pump.start_with(end.start())

    @property
    def welcomed(self) -> bool:
        """Whether the gateway has accepted this node."""
        return self._number is not None

    async def run(self) -> Close:
        """Serve the gateway until the link ends, and say why it did."""
        try:
            return await self._pump.run()
        finally:
            if self._number is not None:
                self._node.link_down(self._number)

    async def _deliver(self, message: FromGateway) -> None:
        match message:
            case Welcome():
                self._number = self._node.link_up(self._pump.post)
                self._node.log.info("link_up", gateway=message.gateway)
            case Open() | Credit() | Cancel():
                assert self._number is not None, "the link machine asks for a Welcome first"
                self._node.hear(self._number, message)
            case _:
                raise AssertionError(f"the link machine delivered {type(message).__name__}")


async def keep_joined(
    node: NodeLoop,
    hello: Hello,
    dial: Callable[[], Awaitable[NodeConnection]],
    settings: JoinSettings,
    dice: random.Random,
) -> None:
    """Stay joined until cancelled.

    Raises what cannot get better by trying again: a token that is not accepted, an address that is
    none, a gateway of another version.
    """
    pause_s = settings.first_s
    while True:
        try:
            joined = Joined(node, await dial(), hello, settings.link)
        except RoostError as error:
            if error.failure.kind.fault is Fault.CALLER:
                raise
            node.log.warning("link_down", reason=error.failure.message)
        else:
            close = await joined.run()
            if not close.again:
                raise RoostError(close.failure)
            node.log.warning("link_down", reason=close.failure.message)
            if joined.welcomed:
                pause_s = settings.first_s
        await asyncio.sleep(pause_s * dice.uniform(0.5, 1.0))
        pause_s = min(settings.max_s, 2 * pause_s)
