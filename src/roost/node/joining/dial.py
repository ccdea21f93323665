"""SHELL: stays joined to one gateway: dials, serves, and dials again, until there is no point.

There is none when the gateway does not accept the node (a wrong token, another version, a Goodbye
that says so), and when the node itself has said goodbye.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from roost.errors import Failure, Fault, RoostError
from roost.observe.logs import Log
from roost.wire.link_tables import Close
from roost.wire.memory import NodeConnection


class DialSettings(msgspec.Struct, frozen=True):
    """Seconds between two dials: from `first_s`, doubled up to `max_s`, each with jitter.

    A link that stood for `max_s` starts from the beginning.
    """

    first_s: float = 0.2
    max_s: float = 5.0


class Dice(Protocol):
    """A source of randomness; `random.Random` is one."""

    def uniform(self, a: float, b: float, /) -> float:
        """A number between `a` and `b`."""
        ...


def wait_s(settings: DialSettings, failures: int, dice: Dice) -> float:
    """How long to wait after this many failures in a row, at least 1.

    Between half and all of the step: nodes that lost a gateway together do not come back together.
    """
    step_s = min(settings.max_s, settings.first_s * 2.0 ** min(failures - 1, 30))
    return dice.uniform(step_s / 2, step_s)


async def keep_joined(
    dial: Callable[[], Awaitable[NodeConnection]],
    serve: Callable[[NodeConnection], Awaitable[Close]],
    settings: DialSettings,
    dice: Dice,
    log: Log,
) -> Failure:
    """Dial and serve until there is no point in dialling again; say why. A cancel ends it too."""
    clock = asyncio.get_running_loop().time
    failures = 0
    while True:
        close, stood_s = await _once(dial, serve, clock)
        if not close.again:
            return close.failure
        failures = 1 if stood_s >= settings.max_s else failures + 1
        pause_s = wait_s(settings, failures, dice)
        log.warning("link_down", reason=close.failure.message, again_in_s=round(pause_s, 2))
        await asyncio.sleep(pause_s)


async def _once(
    dial: Callable[[], Awaitable[NodeConnection]],
    serve: Callable[[NodeConnection], Awaitable[Close]],
    clock: Callable[[], float],
) -> tuple[Close, float]:
    """Why the link has ended and for how long it stood, in seconds; 0 where there was none.

    What the dial itself takes is not counted: it may end after longer than `max_s`, at nobody.
    """
    try:
        connection = await dial()
    except RoostError as error:
        # A token, an address or a file that is wrong will be wrong at the next dial too.
        return Close(error.failure, again=error.failure.kind.fault is not Fault.CALLER), 0.0
    stands_since = clock()
    close = await serve(connection)
    return close, clock() - stands_since
