"""DECIDER: figures in a few characters, for tables that have to fit into 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

UNKNOWN = "-"
_BLOCKS = " ▁▂▃▄▅▆▇█"


def duration(seconds: float | None) -> str:
    """Write a time: `0.4s`, `42s`, `3m10s`, `2h05m`, `4d03h`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return f"{max(0.0, seconds):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02d}h"


def count(number: float | None) -> str:
    """Write a count: `950`, `1.2k`, `34k`, `5.6M`."""
    if number is None:
        return UNKNOWN
    if number < 1000:
        return f"{number:.0f}"
    for unit in ("k", "M", "G"):
        number /= 1000
        if number < 999.5:
            return f"{number:.1f}{unit}" if number < 9.95 else f"{number:.0f}{unit}"
    return f"{number:.0f}G"


def rate(number: float | None) -> str:
    """Write a rate: `0`, `3.4`, `120`."""
    if number is None:
        return UNKNOWN
    return f"{number:.1f}" if 0 < number < 9.95 else count(number)


def share(part: float, whole: float) -> float | None:
    """Return a part of a whole, 0..1; None where the whole is not known."""
    return min(1.0, max(0.0, part / whole)) if whole > 0 else None


def bar(filled: float | None, width: int) -> str:
    """Draw a share as a bar; one that is not known as nothing."""
    if filled is None:
        return " " * width
    full = round(filled * width)
    # What is there at all is seen.
    full = max(full, 1) if filled > 0 else full
    return "█" * full + "░" * (width - full)


def percent(filled: float | None) -> str:
    """Write a share: `  7%`."""
    return "   " + UNKNOWN if filled is None else f"{filled:4.0%}"


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw the last values, the highest of them as a full block."""
    last = list(values)[-width:]
    top = max(last, default=0.0)
    if top <= 0:
        return _BLOCKS[1] * len(last)
    return "".join(_BLOCKS[1 + round(7 * max(0.0, value) / top)] for value in last)


def clipped(text: str, width: int) -> str:
    """Cut a text to a width, and show that it is cut."""
    if len(text) <= width:
        return text
    return text[: max(0, width - 1)] + "…" if width > 0 else ""
