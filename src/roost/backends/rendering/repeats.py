"""MACHINE: prompts that were rendered a while ago, for whoever asks for the same again.

A prompt is counted and then answered, answered several times, tried again, or prepared anew on its
way to another slot: to render it takes another process each time. As with tokens (`remembered`),
nobody is told what another owner has asked (`latest`).
"""

from __future__ import annotations

from hashlib import blake2b

from roost.backends.rendering.latest import Latest
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
        self._largest = most_characters * LARGEST
        self._known: Latest[Rendered] = Latest(most_characters, _size)

    def get(self, owner: TenantId | None, asked: bytes) -> Rendered | None:
        """Give what was kept for this question of this owner; `asked` is its digest."""
        return None if owner is None else self._known.get(owner, asked)

    def keep(self, owner: TenantId | None, asked: bytes, rendered: Rendered) -> None:
        """Keep it; the longest unused give way."""
        if owner is not None and _size(rendered) <= self._largest:
            self._known.keep(owner, asked, rendered)

    def forget(self, owner: TenantId) -> None:
        """Keep nothing of this owner."""
        self._known.forget(owner)


def digest_of(frame: bytes) -> bytes:
    """Name a question."""
    return blake2b(frame, digest_size=16).digest()


def _size(rendered: Rendered) -> int:
    return ENTRY_CHARACTERS + sum(map(len, rendered.pieces)) + len(rendered.schema)
