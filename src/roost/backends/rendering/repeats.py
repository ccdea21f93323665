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
ENTRY_CHARACTERS = 500
"""About what an entry takes beside its text."""


class Repeats:
    """The latest used of them, by owner and by what was asked, as long as all texts together fit.

    Nothing is kept for nobody.
    """

    def __init__(self, most_characters: int = MOST_CHARACTERS) -> None:
        self._most_characters = most_characters
        self._characters = 0
        self._known: OrderedDict[bytes, Rendered] = OrderedDict()

    def get(self, owner: TenantId | None, asked: bytes) -> Rendered | None:
        """Give what was kept for this question of this owner."""
        if owner is None:
            return None
        key = _key(owner, asked)
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
        return found

    def keep(self, owner: TenantId | None, asked: bytes, rendered: Rendered) -> None:
        """Keep it; the longest unused give way."""
        if owner is None:
            return
        key = _key(owner, asked)
        old = self._known.pop(key, None)
        self._characters += _size(rendered) - (0 if old is None else _size(old))
        self._known[key] = rendered
        while self._characters > self._most_characters:
            self._characters -= _size(self._known.popitem(last=False)[1])


def _key(owner: TenantId, asked: bytes) -> bytes:
    name = owner.encode("utf-8", "surrogatepass")
    return blake2b(b"%d:%b%b" % (len(name), name, asked), digest_size=16).digest()


def _size(rendered: Rendered) -> int:
    return ENTRY_CHARACTERS + sum(map(len, rendered.pieces)) + len(rendered.schema)
