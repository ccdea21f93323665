"""SHELL: the bounded line of reports before a node's one writer.

A queue with one reader and a clock. `asyncio.Queue` with a timeout around it made a timer and two
context managers for every event of every stream; here an event costs an append and at most one
wake-up, and one timer stands for a whole tick's worth of events.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class Inbox(Generic[_Item]):
    """At most `items_max` items wait; who brings more waits for room."""

    def __init__(self, items_max: int) -> None:
        assert items_max > 0
        self._items_max = items_max
        self._items: deque[_Item] = deque()
        self._putters: deque[asyncio.Future[None]] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        """How many items wait."""
        return len(self._items)

    @property
    def has_room(self) -> bool:
        """Whether an item can be added without waiting."""
        return not self._is_full()

    async def put(self, item: _Item) -> None:
        """Add an item, waiting for room."""
        while self._is_full():
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._putters.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._pass_on(turn)
                raise
        self._items.append(item)
        self._wake()

    def put_now(self, item: _Item) -> bool:
        """Add an item if there is room; return whether there was."""
        if self._is_full():
            return False
        self._items.append(item)
        self._wake()
        return True

    def take(self) -> _Item | None:
        """Take the next item, or None if nothing waits."""
        if not self._items:
            return None
        item = self._items.popleft()
        self._let_in()
        return item

    async def wait(self, wait_s: float) -> None:
        """Return once something waits, after `wait_s` at the latest, perhaps for no reason.

        One task may wait at a time. A timer that stands already and ends earlier is left to stand:
        waking up early costs one look, a new timer for every event costs more.
        """
        if self._items:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + wait_s
        if self._timer is None or at < self._timer_at:
            self._cancel_timer()
            self._timer, self._timer_at = loop.call_at(at, self._ring), at
        self._reader = loop.create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    def ring_in(self, wait_s: float) -> None:
        """Have whoever waits go on after this time, if that is earlier than it was going to."""
        loop = asyncio.get_running_loop()
        at = loop.time() + wait_s
        if self._reader is not None and (self._timer is None or at < self._timer_at):
            self._cancel_timer()
            self._timer, self._timer_at = loop.call_at(at, self._ring), at

    def close(self) -> None:
        """Leave no timer behind."""
        self._cancel_timer()

    def _is_full(self) -> bool:
        return len(self._items) >= self._items_max

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _ring(self) -> None:
        self._timer = None
        self._wake()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _let_in(self) -> None:
        while self._putters:
            turn = self._putters.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _pass_on(self, turn: asyncio.Future[None]) -> None:
        """Give a turn that its owner cannot use any more to the next in line."""
        if turn.done() and not turn.cancelled() and not self._is_full():
            self._let_in()
