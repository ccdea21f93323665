"""MACHINE: when each link gets the node's report: at once, then on change, then at intervals.

Where models are is news, and never waits: whoever does not know of a load decides by what the node
had before it, and drives out what has just been loaded.
"""

from __future__ import annotations

import msgspec


class ReportSettings(msgspec.Struct, frozen=True):
    """`min_s` seconds between two reports however much changes, `max_s` however little does.

    News is told at once; loads are rare.
    """

    min_s: float = 0.1
    max_s: float = 1.0


class _Subscriber:
    """One link: the number of its next report, when the last one went out, what it missed."""

    def __init__(self) -> None:
        self.seq = 0
        self.sent_at: float | None = None
        self.is_outdated = True
        self.is_urgent = False


class Reporter:
    """Keeps the rhythm; the agent writes the reports."""

    def __init__(self, settings: ReportSettings) -> None:
        self._settings = settings
        self._links: dict[int, _Subscriber] = {}

    def on_link_up(self, link: int) -> None:
        """A new link: its first report is due at once."""
        self._links[link] = _Subscriber()

    def on_link_down(self, link: int) -> None:
        """No more reports for this link."""
        del self._links[link]

    def on_change(self) -> None:
        """Something worth knowing has changed."""
        for subscriber in self._links.values():
            subscriber.is_outdated = True

    def on_news(self) -> None:
        """Something has changed that others decide by."""
        for subscriber in self._links.values():
            subscriber.is_outdated = subscriber.is_urgent = True

    def due(self, now: float) -> list[tuple[int, int]]:
        """The links to report to now, each with the number of the report; they count as told."""
        told = []
        for link, subscriber in self._links.items():
            if now < self._due_at(subscriber):
                continue
            told.append((link, subscriber.seq))
            subscriber.seq += 1
            subscriber.sent_at = now
            subscriber.is_outdated = subscriber.is_urgent = False
        return told

    def next_tick(self) -> float | None:
        """When the next report is due; None without links."""
        return min((self._due_at(s) for s in self._links.values()), default=None)

    def _due_at(self, subscriber: _Subscriber) -> float:
        if subscriber.sent_at is None or subscriber.is_urgent:
            return float("-inf")
        wait_s = self._settings.min_s if subscriber.is_outdated else self._settings.max_s
        return subscriber.sent_at + wait_s
