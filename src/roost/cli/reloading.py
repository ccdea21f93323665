"""MACHINE: what HUP changes: every part says whether it can take the new settings, then all do.

A HUP that comes before everything is up is not lost: it counts once that is so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from roost.config import TABLE, Settings
from roost.errors import RoostError

if TYPE_CHECKING:
    from roost.observe.logs import Log


class Taker(NamedTuple):
    """A part that follows settings: the names of those, and what it does about them.

    `prepare` looks at new settings and returns what takes them over, which does not fail; it raises
    `bad_request` for what it cannot take, and then nothing anywhere has changed.
    """

    names: tuple[str, ...]
    prepare: Callable[[Settings], Callable[[], None]]


class Reloads:
    """The settings of one verb that runs: `read` reads them anew, `used` are those that it has."""

    def __init__(
        self, settings: Settings, used: frozenset[str], read: Callable[[], Settings], log: Log
    ) -> None:
        self._settings = settings
        self._used = used
        self._read = read
        self._log = log
        self._takers: list[Taker] = []
        self._is_open = False
        self._missed = False

    def add(self, taker: Taker) -> None:
        """From now on this part follows its settings."""
        self._takers.append(taker)

    def open(self) -> None:
        """Everything is up: from now on HUP counts at once, and one that came before counts now."""
        self._is_open = True
        if self._missed:
            self.on_hup()

    def on_hup(self) -> None:
        """Take the settings that there are now, or keep all of the old ones and say why."""
        if not self._is_open:
            self._missed = True
            return
        try:
            settings = self._read()
            prepared = [taker.prepare(settings) for taker in self._takers]
        except RoostError as error:
            self._log.warning("reload_refused", reason=error.failure.message)
            return
        followed = {name for taker in self._takers for name in taker.names}
        changed = [row for row in TABLE if self._differs(row.attribute, settings)]
        for take in prepared:
            take()
        taken = [row for row in changed if row.name in followed]
        late = [row.name for row in changed if row.name not in followed]
        # What waits for a restart is compared with what runs: who takes it back waits for nothing.
        new = {row.attribute: getattr(settings, row.attribute) for row in taken}
        self._settings = self._settings._replace(**new)
        self._log.info("reloaded", settings=[row.name for row in taken])
        if late:
            self._log.warning("reload_needs_restart", settings=late)

    def _differs(self, attribute: str, settings: Settings) -> bool:
        return attribute in self._used and (
            getattr(settings, attribute) != getattr(self._settings, attribute)
        )
