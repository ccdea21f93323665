"""MACHINE: how full each memory of this machine is, and when something has to be done about that.

    normal ──75 %──▶ soft (told) ──85 %──▶ hard (one relief pass) ──95 %──▶ emergency (another one)

A level ends five points below where it begins, or a memory that is just so full would be told of
with every measurement. A pass is made once when a level begins, and not again before the memory has
left it: what did not help will not help the second time, and everything idle would be gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from roost.core.snapshots import PRESSURES, Pressure


class PressureSettings(msgspec.Struct, frozen=True):
    """Shares of a memory at which it counts as filling, as full, and as one that takes no more.

    A level ends `slack` below its begin; two passes are at least `rest_s` apart.
    """

    soft: float = 0.75
    hard: float = 0.85
    full: float = 0.95
    slack: float = 0.05
    rest_s: float = 5.0


class Reading(msgspec.Struct, frozen=True):
    """One memory as measured: what it has, and what programs can still have of it, in bytes.

    None is what nobody tells.
    """

    device: str
    capacity_bytes: int | None
    room_bytes: int | None


class Change(msgspec.Struct, frozen=True):
    """A memory is at another level than before; `share` of it has gone."""

    device: str
    pressure: Pressure
    share: float


@dataclass(slots=True)
class _Device:
    reading: Reading
    level: Pressure = "unknown"
    # Up to which level passes have been made since it was last left.
    relieved: int = 0


class Gauges:
    """Every memory that was ever measured."""

    def __init__(self, settings: PressureSettings) -> None:
        self.settings = settings
        self._devices: dict[str, _Device] = {}
        self._relieved_at: float | None = None

    def read(self, readings: Iterable[Reading]) -> list[Change]:
        """Take measurements; what is at another level now."""
        changes = []
        for reading in readings:
            device = self._devices.setdefault(reading.device, _Device(reading))
            device.reading = reading
            share = _share(reading)
            level = "unknown" if share is None else self._level(share, device.level)
            if level != device.level and not (device.level == "unknown" and level == "normal"):
                changes.append(Change(reading.device, level, share or 0.0))
            device.level = level
            device.relieved = min(device.relieved, PRESSURES.index(level))
        return changes

    def readings(self) -> Iterable[tuple[Reading, Pressure]]:
        """Each memory as last measured, and its level."""
        return [(device.reading, device.level) for device in self._devices.values()]

    def room_bytes(self, device: str) -> int | None:
        """What may still be taken of a memory before it is full; below 0 where it is; or None."""
        reading = self._devices[device].reading if device in self._devices else None
        if reading is None or reading.capacity_bytes is None or reading.room_bytes is None:
            return None
        return reading.room_bytes - int((1 - self.settings.full) * reading.capacity_bytes)

    def to_free(self, now: float) -> dict[str, int]:
        """How many bytes of which memories a pass should free now; they count as relieved."""
        rested = self._relieved_at is None or now >= self._relieved_at + self.settings.rest_s
        found: dict[str, int] = {}
        for name, device in self._devices.items() if rested else ():
            level = PRESSURES.index(device.level)
            if level < PRESSURES.index("hard") or level <= device.relieved:
                continue
            device.relieved = level
            found[name] = self._over_bytes(device.reading)
        if found:
            self._relieved_at = now
        return found

    def _over_bytes(self, reading: Reading) -> int:
        assert reading.capacity_bytes is not None, "an unknown memory has no level"
        assert reading.room_bytes is not None, "an unknown memory has no level"
        wanted = 1 - (self.settings.hard - self.settings.slack)
        return max(0, int(wanted * reading.capacity_bytes) - reading.room_bytes)

    def _level(self, share: float, before: Pressure) -> Pressure:
        """Name a level; one that is left has to be left by `slack`."""
        settings, level = self.settings, PRESSURES.index("normal")
        for name, begins in (
            ("soft", settings.soft),
            ("hard", settings.hard),
            ("emergency", settings.full),
        ):
            index = PRESSURES.index(name)
            stays = PRESSURES.index(before) >= index
            if share >= begins - (settings.slack if stays else 0.0):
                level = index
        return PRESSURES[level]


def _share(reading: Reading) -> float | None:
    """How much of a memory has gone, 0..1."""
    if not reading.capacity_bytes or reading.room_bytes is None:
        return None
    return 1 - max(0, min(reading.room_bytes, reading.capacity_bytes)) / reading.capacity_bytes
