"""MACHINE: the events of a stream, kept for a reader that loses its connection and comes back.

Events are opaque blocks with numbers from 0. At most one reader is attached. While it is, nothing
that it has not taken is dropped: whoever writes waits for it, as for any slow client. While nobody
is, the oldest events make room: waiting would hold a slot of a node that others need. A log is of
use until nobody has come back for its window; then, or some time after the end, it is forgotten.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque

import msgspec

from roost.core.ids import RequestId, TenantId


class ReattachSettings(msgspec.Struct, frozen=True):
    """How long clients may stay away, and what is kept for them meanwhile.

    A client may ask for up to `max_s`. Each log holds `log_bytes`, but for what an attached reader
    has yet to take. At most `entries` logs exist; those of streams that are over make
    room. The last quarter of it is for tenants that have less than their share.
    """

    max_s: float = 60.0
    log_bytes: int = 1024 * 1024
    entries: int = 128


class StreamLog:
    """One stream; it begins with its reader attached."""

    def __init__(self, window_s: float, log_bytes: int) -> None:
        self.window_s = window_s
        self._log_bytes = log_bytes
        self._blocks: deque[bytes] = deque()
        self._held_bytes = 0
        self._first = 0
        self._cursor: int | None = 0
        self._ended = False
        self._until_s: float | None = None

    @property
    def first(self) -> int:
        """The number of the oldest event there is."""
        return self._first

    @property
    def next(self) -> int:
        """The number that the next event gets."""
        return self._first + len(self._blocks)

    @property
    def held_bytes(self) -> int:
        """What all events weigh."""
        return self._held_bytes

    @property
    def attached(self) -> bool:
        """Whether somebody reads."""
        return self._cursor is not None

    @property
    def behind(self) -> bool:
        """Whether somebody reads and has not taken everything yet."""
        return self._cursor is not None and self._cursor < self.next

    @property
    def ended(self) -> bool:
        """Whether no event follows."""
        return self._ended

    @property
    def until_s(self) -> float | None:
        """When it is of no more use, on the clock of `now`; None while somebody is awaited."""
        return self._until_s

    def on_block(self, block: bytes) -> None:
        """The stream goes on with this event."""
        self._blocks.append(block)
        self._held_bytes += len(block)
        self._trim()

    def on_end(self, now: float) -> None:
        """No event follows. A reader may have lost the last ones on the way, so they stay."""
        self._ended = True
        if self._until_s is None:
            self._until_s = now + self.window_s

    def on_detach(self, now: float) -> None:
        """The reader's connection is lost; without a new one the stream has its window to live."""
        if self._cursor is None:
            return
        self._cursor = None
        if not self._ended:
            self._until_s = now + self.window_s
        self._trim()

    def on_attach(self, wanted: int) -> bool:
        """A reader wants everything from this event on; False where that cannot be given.

        A reader that is attached already is replaced. After the end the window stays what it was.
        """
        if not self._first <= wanted <= self.next:
            return False
        self._cursor = wanted
        if not self._ended:
            self._until_s = None
        return True

    def take(self) -> bytes | None:
        """Give the reader its next event; None where there is none yet."""
        cursor = self._cursor
        if cursor is None or cursor >= self.next:
            return None
        block = self._blocks[cursor - self._first]
        self._cursor = cursor + 1
        self._trim()
        return block

    def _trim(self) -> None:
        kept_from = self.next if self._cursor is None else self._cursor
        while self._held_bytes > self._log_bytes and self._first < kept_from:
            self._held_bytes -= len(self._blocks.popleft())
            self._first += 1


class Granted(msgspec.Struct, frozen=True):
    """A log for a request, and the request whose own is forgotten for it, if one is."""

    log: StreamLog
    forgotten: RequestId | None


class StreamLogs:
    """Every log there is, and whose it is."""

    def __init__(self, settings: ReattachSettings) -> None:
        self._settings = settings
        self._logs: OrderedDict[RequestId, tuple[TenantId, StreamLog]] = OrderedDict()
        self._own: Counter[TenantId] = Counter()

    def __len__(self) -> int:
        return len(self._logs)

    def on_request(self, request: RequestId, tenant: TenantId, window_s: float) -> Granted | None:
        """A client asks to be waited for; None where there is no room for one more log."""
        forgotten = None
        if not self._has_room(tenant):
            forgotten = self._over(tenant)
            if forgotten is None:
                return None
            self.forget(forgotten)
        log = StreamLog(window_s, self._settings.log_bytes)
        self._logs[request] = (tenant, log)
        self._own[tenant] += 1
        return Granted(log, forgotten)

    def _has_room(self, tenant: TenantId) -> bool:
        """Whether there is a place, and the tenant may have it: a live stream gives up none."""
        entries = self._settings.entries
        room, others = entries - len(self._logs), len(self._own) - (tenant in self._own)
        few = self._own[tenant] * (others + 2) < entries
        return room > entries // 4 or (room > 0 and few)

    def _over(self, tenant: TenantId) -> RequestId | None:
        """The oldest whose stream is over; of its own, where a tenant has its share or more."""
        own = self._own[tenant]
        crowded = own > 0 and own * len(self._own) >= len(self._logs)
        return next(
            (
                name
                for name, (owner, log) in self._logs.items()
                if log.ended and not log.attached and (owner == tenant or not crowded)
            ),
            None,
        )

    def find(self, request: RequestId, tenant: TenantId) -> StreamLog | None:
        """The log of a request of this tenant; of others' nobody learns whether they exist."""
        owner, log = self._logs.get(request, (None, None))
        return log if owner == tenant else None

    def forget(self, request: RequestId) -> None:
        """A log is of no more use."""
        known = self._logs.pop(request, None)
        if known is not None:
            self._own[known[0]] -= 1
            if not self._own[known[0]]:
                del self._own[known[0]]
