"""DECIDER: result files as one page that needs nothing else, and as a Markdown table.

A result is what `bench load --out` or `--json` writes, or what `sweep` and `capacity` write: then
each of their levels is a row, and curves show how figures grow with the level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

import msgspec

from roost.bench.load.curves import Curve, plot

Json = Mapping[str, object]
COLUMNS = (
    ("ok", "ok"),
    ("shed", "shed"),
    ("failed", "failed"),
    ("TTFT p50 ms", "ttft_ms.p50"),
    ("TTFT p95 ms", "ttft_ms.p95"),
    ("TTFT p99 ms", "ttft_ms.p99"),
    ("gap p50 ms", "gap_ms.p50"),
    ("gap p99 ms", "gap_ms.p99"),
    ("e2e p99 ms", "e2e_ms.p99"),
    ("tokens/s", "tokens_per_s"),
    ("goodput/s", "goodput_per_s"),
    ("cached", "cached_tokens"),
    ("late p99 ms", "late_ms.p99"),
)
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;"
    "color:#222;background:#fff}table{border-collapse:collapse;margin:1em 0;display:block;"
    "overflow-x:auto}td,th{padding:.25em .7em;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}"
    "pre{white-space:pre-wrap;background:#f5f5f5;padding:1em}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}"
    "td,th{border-color:#444}pre{background:#242424}}"
)


class Row(msgspec.Struct, frozen=True):
    """One load: what it is called, its figures, and at which level of a series it was played.

    `series` is the name of the file that it comes from.
    """

    name: str
    series: str
    figures: Json
    level: float | None = None


def rows_of(name: str, result: Json) -> list[Row]:
    """Take a result apart; `ValueError` for what is none."""
    levels = result.get("levels")
    if isinstance(levels, list):
        return [_level(name, one) for one in levels]
    if not {"ok", "shed", "failed", "e2e_ms"} <= result.keys():
        raise ValueError(f"{name} is no result of a load")
    return [Row(name, name, result)]


def _level(name: str, figures: object) -> Row:
    found = figures if isinstance(figures, dict) else {}
    level = figure(found, "level")
    if level is None:
        raise ValueError(f"{name} is no result of a load")
    return Row(f"{name} at {level:g}", name, found, level)


def figure(figures: Json, path: str) -> float | None:
    """Return a figure by its path; None where it is not known."""
    value: object = figures
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def cells(row: Row) -> list[str]:
    """Write a row; what is not known is a question mark."""
    values = (figure(row.figures, path) for _, path in COLUMNS)
    return [row.name, *("?" if value is None else f"{value:.4g}" for value in values)]


def markdown(rows: Sequence[Row]) -> str:
    """Write the rows as a table for documents."""
    heads = ["load", *(head for head, _ in COLUMNS)]
    lines = [heads, ["---", *("---:" for _ in COLUMNS)], *map(cells, rows)]
    return "".join(f"| {' | '.join(_piped(cell) for cell in line)} |\n" for line in lines)


def page(rows: Sequence[Row]) -> str:
    """Write the page: losses and figures, curves, and where and how all of it was measured."""
    heads = "".join(f"<th>{escape(head)}</th>" for head in ("load", *(h for h, _ in COLUMNS)))
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells(row))}</tr>" for row in rows
    )
    parts = [f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"]
    parts += [f"<figure>{drawn}</figure>" for drawn in _plots(rows)]
    parts += [f"<details><summary>{escape(r.name)}</summary>{_where(r)}</details>" for r in rows]
    title = "Loads and what came of them"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{NOTES}</p>{''.join(parts)}</body></html>\n"
    )


NOTES = (
    "Latencies are of answers that came whole, and count from when a request was due. TTFT ends "
    "with the first content, gaps are all times between two pieces of it. Shed is refused at once, "
    "failed is everything else, a stream without its end included. Late is how much too late the "
    "client itself has sent."
)


def _plots(rows: Sequence[Row]) -> list[str]:
    series = {row.series: [one for one in rows if one.series == row.series] for row in rows}
    found = []
    for title, path in (
        ("TTFT p99 in ms by level", "ttft_ms.p99"),
        ("end to end p99 in ms by level", "e2e_ms.p99"),
        ("goodput per second by level", "goodput_per_s"),
    ):
        curves = [_by_level(name, members, path) for name, members in series.items()]
        found.append((title, [curve for curve in curves if len(curve.points) > 1]))
    for title, name in (("TTFT in ms", "ttft_s"), ("gaps in ms", "gaps_s")):
        curves = [_shares(row, name) for row in rows]
        told = f"{title}: the share of all, in percent, up to it"
        found.append((told, [curve for curve in curves if len(curve.points) > 1]))
    return [plot(title, curves) for title, curves in found if curves]


def _by_level(name: str, rows: Sequence[Row], path: str) -> Curve:
    points = [(row.level, figure(row.figures, path)) for row in rows]
    known = sorted((x, y) for x, y in points if x is not None and y is not None)
    return Curve(name, tuple(known))


def _shares(row: Row, name: str) -> Curve:
    """Return how values are distributed, from raw samples where there are any."""
    samples = row.figures.get("samples")
    values: list[float] = []
    for sample in samples if isinstance(samples, list) else []:
        value = sample.get(name) if isinstance(sample, dict) else None
        if isinstance(sample, dict) and sample.get("outcome") == "ok":
            values += value if isinstance(value, list) else [value] if value is not None else []
    ordered = sorted(1000 * value for value in values)
    steps = [(value, 100 * (n + 1) / len(ordered)) for n, value in enumerate(ordered)]
    return Curve(row.name, tuple(_thinned(steps)))


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep so many points as can be seen; the first and the last among them."""
    step = max(1, len(points) // 400)
    kept = [point for number, point in enumerate(points) if number % step == 0]
    kept += points[-1:]
    return [a for a, b in pairwise([*kept, (-1.0, -1.0)]) if a != b]


def _where(row: Row) -> str:
    told = {
        name: row.figures.get(name)
        for name in ("workload", "environment", "server_before", "server_after", "errors", "slo")
    }
    words = msgspec.json.format(msgspec.json.encode(told), indent=1).decode()
    return f"<pre>{escape(words)}</pre>"


def _piped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
