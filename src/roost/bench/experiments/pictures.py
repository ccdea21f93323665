"""DECIDER: the pictures of a page as SVG files that need nothing else."""

from __future__ import annotations

from html import escape

from roost.bench.experiments.telling import Bars, Lines
from roost.bench.load.curves import BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, nice, plot

TICKS = 4
FILLED = 0.8
"""The share of its place that a group of bars takes."""


def svg(picture: Bars | Lines) -> str:
    """Draw a picture; it has at least one value."""
    drawn = _bars(picture) if isinstance(picture, Bars) else _lines(picture)
    head = '<svg xmlns="http://www.w3.org/2000/svg" style="background:white" color="#222" '
    return head + drawn.removeprefix("<svg ") + "\n"


def _lines(picture: Lines) -> str:
    return _named(plot(picture.title, picture.curves), picture.across, picture.up)


def _named(drawn: str, across: str, up: str) -> str:
    """Write what is along the axes."""
    middle_y = (HEIGHT - BOTTOM + TOP) / 2
    names = (
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{escape(across)}</text>'
        f'<text transform="translate(14 {middle_y:g}) rotate(-90)" text-anchor="middle">'
        f"{escape(up)}</text>"
    )
    return drawn.removesuffix("</svg>") + names + "</svg>"


def _bars(picture: Bars) -> str:
    most = nice(max(value for _, values in picture.groups for value in values))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg {size} role="img" aria-label="{escape(picture.title)}" fill="currentColor">',
        f'<text x="{LEFT}" y="16" font-size="14">{escape(picture.title)}</text>',
    ]
    for tick in range(TICKS + 1):
        y = _height(most * tick / TICKS, most)
        parts.append(
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" opacity=".15"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{most * tick / TICKS:g}</text>'
        )
    place = (WIDTH - LEFT - RIGHT) / len(picture.groups)
    for number, (name, values) in enumerate(picture.groups):
        left = LEFT + place * number
        middle = left + place / 2
        parts.append(
            f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
            f"{escape(name)}</text>"
        )
        wide = place * FILLED / len(values)
        for series, value in enumerate(values):
            x, y = left + place * (1 - FILLED) / 2 + wide * series, _height(value, most)
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide * 0.95:.1f}" '
                f'height="{HEIGHT - BOTTOM - y:.1f}" fill="{COLOURS[series % len(COLOURS)]}"/>'
                f'<text x="{x + wide / 2:.1f}" y="{y - 3:.1f}" text-anchor="middle" '
                f'font-size="11">{value:.3g}</text>'
            )
    for series, name in enumerate(picture.series):
        x = WIDTH - RIGHT - 150
        parts.append(
            f'<text x="{x}" y="{TOP + 14 * series}" fill="{COLOURS[series % len(COLOURS)]}">'
            f"{escape(name)}</text>"
        )
    return _named("".join([*parts, "</svg>"]), "", picture.unit)


def _height(value: float, most: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most
