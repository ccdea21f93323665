"""MACHINE: what was found out for owners, the latest used of it, as far as there is room for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """Things by owner and digest; `size_of` each, they are together no larger than `most`.

    All owners share one room: who asks for much pushes out what others have asked. But what is kept
    for one is told to no other, not even by the time that an answer takes.
    """

    def __init__(self, most: int, size_of: Callable[[T], int]) -> None:
        self._most = most
        self._size_of = size_of
        self._size = 0
        self._known: OrderedDict[tuple[str, bytes], T] = OrderedDict()

    def get(self, owner: str, digest: bytes) -> T | None:
        """Give what was kept for this owner, which is thereby used."""
        found = self._known.get((owner, digest))
        if found is not None:
            self._known.move_to_end((owner, digest))
        return found

    def keep(self, owner: str, digest: bytes, value: T) -> None:
        """Keep it, in place of what was there; the longest unused give way."""
        self._drop((owner, digest))
        self._known[owner, digest] = value
        self._size += self._size_of(value)
        while self._size > self._most:
            self._drop(next(iter(self._known)))

    def forget(self, owner: str) -> None:
        """Keep nothing of this owner."""
        for key in [key for key in self._known if key[0] == owner]:
            self._drop(key)

    def _drop(self, key: tuple[str, bytes]) -> None:
        if key in self._known:
            self._size -= self._size_of(self._known.pop(key))
