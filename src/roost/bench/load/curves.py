"""DECIDER: curves as SVG, axes and legend included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import msgspec

WIDTH, HEIGHT = 760, 320
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 36, 40
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888")
TICKS = 5
NAMES = 240
"""How wide names of curves may be."""


class Curve(msgspec.Struct, frozen=True):
    """A name and points from left to right."""

    name: str
    points: tuple[tuple[float, float], ...]


def plot(title: str, curves: Sequence[Curve]) -> str:
    """Draw curves over one pair of axes that begin at 0; at least one point in all."""
    across = nice(max(x for curve in curves for x, _ in curve.points))
    up = nice(max(y for curve in curves for _, y in curve.points))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg {size} role="img" aria-label="{escape(title)}" fill="currentColor">',
        f'<text x="{LEFT}" y="16" font-size="14">{escape(title)}</text>',
    ]
    for tick in range(TICKS + 1):
        x, y = _place(across * tick / TICKS, up * tick / TICKS, across, up)
        bottom, left = HEIGHT - BOTTOM, LEFT
        parts.append(
            f'<path d="M{left} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" opacity=".15"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(up * tick / TICKS)}'
            f'</text><text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">'
            f"{_short(across * tick / TICKS)}</text>"
        )
    # Names stand on the left, or on the right where no curve gets that far.
    rightmost, _ = _place(max(x for curve in curves for x, _ in curve.points), 0.0, across, up)
    names_x = WIDTH - NAMES if rightmost < WIDTH - NAMES else LEFT + 8
    for number, curve in enumerate(curves):
        parts.append(_drawn(curve, number, (across, up), names_x))
    return "".join([*parts, "</svg>"])


def nice(most: float) -> float:
    """Return the least of 1, 2, 2.5 and 5 times a power of ten that is not below `most`."""
    if most <= 0 or not math.isfinite(most):
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= most * (1 - 1e-9))


def _place(x: float, y: float, across: float, up: float) -> tuple[float, float]:
    return (
        LEFT + (WIDTH - LEFT - RIGHT) * x / across,
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / up,
    )


def _drawn(curve: Curve, number: int, most: tuple[float, float], names_x: int) -> str:
    colour = COLOURS[number % len(COLOURS)]
    places = [_place(x, y, *most) for x, y in curve.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places[:40])
    marks = f'<g fill="{colour}">{dots}</g>' if len(places) <= 40 else ""
    name = f'<text x="{names_x}" y="{TOP + 14 * (number + 1)}" fill="{colour}">'
    return (
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>{marks}'
        f"{name}{escape(curve.name)}</text>"
    )


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
