"""SHELL: how large steps of runtimes may be on this machine, by their key: `paces.json`.

What is in it was measured once, and is measured again if it is lost; so a damaged file is begun
anew. Another machine that shares ROOST_HOME has its own entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from roost.store.files import locked, translated, write_atomic

if TYPE_CHECKING:
    from roost.store.home import Home

ENTRIES_MAX = 256
"""Most keys that are remembered; the ones measured longest ago go first."""


class Paces:
    """What was measured on the machine of this name."""

    def __init__(self, home: Home, machine: str) -> None:
        self._path = home.root / "paces.json"
        self._lock = home.locks / "paces"
        self._machine = machine

    def step_of(self, key: str) -> int:
        """Tokens of a step of the runtime with this key's name, 0 where nobody knows."""
        return self._all().get(self._entry(key), 0)

    def note(self, key: str, step_tokens: int) -> None:
        """Remember what was measured; raises `storage_error`."""
        with translated(), locked(self._lock):
            entry = self._entry(key)
            kept = {name: step for name, step in self._all().items() if name != entry}
            kept[entry] = step_tokens
            newest = dict(list(kept.items())[-ENTRIES_MAX:])
            write_atomic(self._path, msgspec.json.encode(newest))

    def _entry(self, key: str) -> str:
        return f"{self._machine} {key}"

    def _all(self) -> dict[str, int]:
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        except (OSError, msgspec.MsgspecError):
            return {}
        return {name: step for name, step in found.items() if step > 0}
