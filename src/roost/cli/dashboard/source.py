"""SHELL: where looks come from: a gateway that is asked again and again, or a fleet that is played.

Asking waits, up to ten seconds where nobody answers, so that a thread of its own does it: keys work
meanwhile, and leaving does not wait for it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from roost.cli.client import FLEET, ask, located, read_as
from roost.cli.dashboard.demo import DemoFleet
from roost.cli.dashboard.feed import Feed, Fleet, Observed
from roost.errors import Failure, RoostError

if TYPE_CHECKING:
    from roost.cli.dashboard.actions import Action
    from roost.config import Settings

OBSERVABILITY = "/roost/v1/observability"


class Source(Protocol):
    """Something to look at and to act on; both raise `RoostError` with words for a person."""

    @property
    def url(self) -> str:
        """What is looked at."""
        ...

    def raw(self) -> dict[str, object]:
        """What it says, as `observability` and `fleet`."""
        ...

    def act(self, action: Action) -> None:
        """Do something about it."""
        ...


def feed_of(raw: dict[str, object]) -> Feed:
    """Read what a source says; raises `upstream_error` where it is something else."""
    return Feed(read_as(raw["observability"], Observed), read_as(raw["fleet"], Fleet))


class GatewaySource:
    """A gateway, found anew for each look: it may have been started again meanwhile."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._url = settings.url

    @property
    def url(self) -> str:
        """Its address, "" before it was found."""
        return self._url

    def raw(self) -> dict[str, object]:
        """Ask it."""
        self._url = located(self._settings).url
        return {"observability": self._observed(), "fleet": ask(self._settings, FLEET)}

    def _observed(self) -> object:
        try:
            return ask(self._settings, OBSERVABILITY).get("data")
        except RoostError as error:
            if error.failure.reason != "not_found":
                raise
            # One in front of upstreams: it has nodes, and counts no requests for people.
            return {}

    def act(self, action: Action) -> None:
        """Have it do something."""
        sent = None if action.body is None else msgspec.json.encode(action.body)
        ask(self._settings, action.path, action.method, sent)


class DemoSource:
    """A fleet that is played here: nothing is asked, and what is done to it stays here."""

    def __init__(
        self, seed: int, past_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        began_ms = time.time_ns() // 1_000_000 - round(1000 * past_s)
        # It has run for a while before anybody looks: there is something to see.
        self._fleet = DemoFleet(random.Random(seed), clock() - past_s, began_ms)

    @property
    def url(self) -> str:
        """Say that it is none."""
        return "(a fleet that is played)"

    def raw(self) -> dict[str, object]:
        """Let it go on until now, and look."""
        with self._lock:
            self._fleet.on_tick(self._clock())
            return self._fleet.raw()

    def act(self, action: Action) -> None:
        """Do it there."""
        with self._lock:
            self._fleet.on_action(action.method, action.path, action.body or {})


class Look(msgspec.Struct, frozen=True):
    """One look: what was seen, or why nothing was."""

    feed: Feed | None
    failure: Failure | None = None


class Poller:
    """Looks every `interval_s`, and at once when poked; `told` hears of it in another thread."""

    def __init__(self, source: Source, interval_s: float, told: Callable[[Look], None]) -> None:
        self._source = source
        self._interval_s = interval_s
        self._told = told
        self._poked = threading.Event()
        self._over = False
        self.paused = False
        # A daemon: whoever leaves does not wait for an answer that may never come.
        self._thread = threading.Thread(target=self._run, name="looks", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def poke(self) -> None:
        """Look now."""
        self._poked.set()

    def stop(self) -> None:
        """Look no more."""
        self._over = True
        self._poked.set()

    def _run(self) -> None:
        while not self._over:
            if not self.paused:
                self._told(look(self._source))
            self._poked.wait(self._interval_s)
            self._poked.clear()


def look(source: Source) -> Look:
    """Look once; whatever is wrong is part of what was seen."""
    try:
        return Look(feed_of(source.raw()))
    except RoostError as error:
        return Look(None, error.failure)
    except OSError as error:
        return Look(None, Failure("upstream_error", error.strerror or type(error).__name__))


def done(source: Source, action: Action) -> Failure | None:
    """Do something, and return why it was not done."""
    try:
        source.act(action)
    except RoostError as error:
        return error.failure
    return None
