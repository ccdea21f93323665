"""MACHINE: prompts that were rendered a while ago, for whoever asks for the same again.

A prompt is counted and then answered, answered several times, tried again, or prepared anew on its
way to another slot: to render it takes another process each time. As with tokens (`remembered`),
nobody is told what another owner has asked, not even by the time that it takes.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

from roost.core.ids import TenantId
from roost.text.endings import Rendered

MOST_CHARACTERS = 4 * 1024 * 1024
LARGEST = 0.5
"""Of that, in one prompt."""

ENTRY_CHARACTERS = 500
"""About what an entry takes beside its text."""


class Repeats:
    """The latest used of them, by owner and by what was asked, as long as all texts together fit.

    Nothing is kept for nobody, and nothing so long that it would drive most of the others out.
    """

    def __init__(self, most_characters: int = MOST_CHARACTERS) -> None:
        self._most_characters = most_characters
        self._characters = 0
        self._known: OrderedDict[tuple[TenantId, bytes], Rendered] = OrderedDict()

    def get(self, owner: TenantId | None, asked: bytes) -> Rendered | None:
        """Give what was kept for this question of this owner; `asked` is its digest."""
        found = None if owner is None else self._known.get((owner, asked))
        if owner is not None and found is not None:
            self._known.move_to_end((owner, asked))
        return found

    def keep(self, owner: TenantId | None, asked: bytes, rendered: Rendered) -> None:
        """Keep it; the longest unused give way."""
        size = _size(rendered)
        if owner is None or size > self._most_characters * LARGEST:
            return
        old = self._known.pop((owner, asked), None)
        self._characters += size - (0 if old is None else _size(old))
        self._known[owner, asked] = rendered
        while self._characters > self._most_characters:
            self._characters -= _size(self._known.popitem(last=False)[1])

    def forget(self, owner: TenantId) -> None:
        """Keep nothing of this owner."""
        for key in [key for key in self._known if key[0] == owner]:
            self._characters -= _size(self._known.pop(key))


def digest_of(frame: bytes) -> bytes:
    """Name a question."""
    return blake2b(frame, digest_size=16).digest()


def _size(rendered: Rendered) -> int:
    return ENTRY_CHARACTERS + sum(map(len, rendered.pieces)) + len(rendered.schema)
