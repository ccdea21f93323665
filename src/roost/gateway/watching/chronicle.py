"""SHELL: a log whose lines about the fleet are kept for a while, for those who look on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from roost.fleet.watching.happenings import SHOWN

if TYPE_CHECKING:
    from roost.fleet.watching.happenings import Happenings, Level
    from roost.observe.logs import Log


class Chronicle:
    """Passes every line on, and keeps those of interest whatever the log's level."""

    def __init__(self, log: Log, happenings: Happenings) -> None:
        self._log = log
        self._happenings = happenings

    def debug(self, event: str, **facts: object) -> None:
        """Say something that only a developer wants to read."""
        self.keep("debug", event, facts)
        self._log.debug(event, **facts)

    def info(self, event: str, **facts: object) -> None:
        """Say that something happened."""
        self.keep("info", event, facts)
        self._log.info(event, **facts)

    def warning(self, event: str, **facts: object) -> None:
        """Say that something went wrong and was dealt with."""
        self.keep("warning", event, facts)
        self._log.warning(event, **facts)

    def error(self, event: str, **facts: object) -> None:
        """Say that something went wrong and somebody has to look."""
        self.keep("error", event, facts)
        self._log.error(event, **facts)

    def keep(self, level: Level, event: str, facts: dict[str, object]) -> None:
        """Keep what is of interest, and say nothing: somebody else has done so."""
        if event in SHOWN:
            self._happenings.note(event, level, facts, time.time_ns() // 1_000_000)
