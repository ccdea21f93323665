"""MACHINE: the highest epoch heard of for each key; whoever comes with another one is too late.

Bounded: of more than `keys_max` keys the one longest unheard of is forgotten, and with it only the
protection against attempts that are older than so many later ones.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

from roost.core.fence import Epoch, Fence

Standing = Literal["first", "higher", "stale"]


class Fences:
    """Remembers owners; one for a whole node, whichever links they come over."""

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._highest: OrderedDict[str, Epoch] = OrderedDict()

    def __len__(self) -> int:
        return len(self._highest)

    def admit(self, fence: Fence) -> Standing:
        """Judge a claim: `first` of its key, `higher` than all before, or `stale`.

        An epoch is good for one attempt: the same one again is a repeated message, and stale.
        """
        known = self._highest.get(fence.key)
        if known is not None and fence.epoch <= known:
            return "stale"
        self._highest[fence.key] = fence.epoch
        self._highest.move_to_end(fence.key)
        if len(self._highest) > self._keys_max:
            self._highest.popitem(last=False)
        return "first" if known is None else "higher"
