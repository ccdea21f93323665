"""SHELL: what runtimes were seen to take, by their exact key: `calibration.json` in ROOST_HOME.

A file of its own beside roost.db: what is in it is worth a measurement, and no older roost is kept
from its home by it. A damaged one is begun anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from roost.core.model import RuntimeKey, RuntimeOptions
from roost.store.files import locked, translated, write_atomic

if TYPE_CHECKING:
    from roost.store.home import Home

ENTRIES_MAX = 256
"""Most keys that are remembered; the ones measured longest ago go first."""


class Weighed(msgspec.Struct, frozen=True):
    """One runtime key, what was calculated for it, None where that could not be, and measured.

    When that was is for people who read the file; roost goes by the order of its lines.
    """

    backend: str
    digest: str
    options: RuntimeOptions
    estimate_bytes: int | None
    measured_bytes: int
    measured_unix_s: int

    def is_of(self, key: RuntimeKey) -> bool:
        """Whether it is of exactly this key; the name of the model is none of it."""
        mine = self.backend, self.digest, self.options
        return mine == (key.backend, key.digest, key.options)


class Calibration:
    """What is known of runtimes that have run on this machine."""

    def __init__(self, home: Home) -> None:
        self._path = home.root / "calibration.json"
        self._lock = home.locks / "calibration"

    def all(self) -> tuple[Weighed, ...]:
        """Everything that is known, the newest last; raises `storage_error`."""
        with translated():
            try:
                return msgspec.json.decode(self._path.read_bytes(), type=tuple[Weighed, ...])
            except (FileNotFoundError, msgspec.MsgspecError):
                return ()

    def note(self, weighed: Weighed) -> None:
        """Remember this, in place of what was known of its key; raises `storage_error`."""
        with translated(), locked(self._lock):
            others = [one for one in self.all() if not _same(one, weighed)]
            kept = [*others, weighed][-ENTRIES_MAX:]
            write_atomic(self._path, msgspec.json.encode(kept))


def expected_bytes(
    known: Iterable[Weighed], key: RuntimeKey, estimate_bytes: int | None
) -> int | None:
    """Say what a runtime of this key will take; None where neither it nor its like has run.

    Of the same key what was measured; else, with the same weights in the same backend, what is
    calculated and as much more, or less, as it was with other options.
    """
    nearest: int | None = None
    for one in known:
        if one.is_of(key):
            return one.measured_bytes
        same = (one.backend, one.digest) == (key.backend, key.digest)
        if same and estimate_bytes is not None and one.estimate_bytes is not None:
            nearest = max(0, estimate_bytes + one.measured_bytes - one.estimate_bytes)
    return nearest


def _same(one: Weighed, other: Weighed) -> bool:
    mine = one.backend, one.digest, one.options
    return mine == (other.backend, other.digest, other.options)
