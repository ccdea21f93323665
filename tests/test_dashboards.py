"""The dashboard and the scrape example name only what there is: metrics, labels, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

import msgspec
import pytest
import yaml

from roost.config import TABLE
from roost.observe.names import METRICS, Metric
from tests.source import ROOT

NAME = re.compile(r"\broost_\w+")
SELECTOR = re.compile(r"\b(roost_\w+)(\{[^}]*\})?")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GROUP = re.compile(r"\b(?:by|without|ignoring|on)\s*\(([^)]*)\)")
SUFFIXES = ("_bucket", "_count", "_sum")
BY_NAME = {metric.name: metric for metric in METRICS}


class Target(msgspec.Struct):
    """One curve of a panel."""

    expr: str
    legendFormat: str  # noqa: N815 - the name that Grafana gives it


class Panel(msgspec.Struct):
    """A panel, or the title of a row of them."""

    id: int
    type: str
    title: str
    gridPos: dict[str, int]  # noqa: N815 - the name that Grafana gives it
    description: str = ""
    targets: list[Target] = []


class Dashboard(msgspec.Struct):
    """As much of the file as is checked."""

    panels: list[Panel]
    templating: dict[str, list[dict[str, object]]]


def dashboard() -> Dashboard:
    """Read the file."""
    return msgspec.json.decode((ROOT / "deploy/grafana/roost.json").read_bytes(), type=Dashboard)


def metric_of(name: str) -> Metric | None:
    """Find the metric of a series."""
    found = BY_NAME.get(name)
    for suffix in SUFFIXES:
        base = BY_NAME.get(name.removesuffix(suffix))
        if name.endswith(suffix) and base is not None and base.shape == "histogram":
            return base
    return None if found is None or found.shape == "histogram" else found


def wrong(expr: str, legend: str = "") -> Iterator[str]:
    """Find metrics and labels that do not exist in an expression and in what is made of it."""
    if expr.count("(") != expr.count(")") or expr.count("{") != expr.count("}"):
        yield f"brackets: {expr}"
    labels: set[str] = set()
    for name, selector in SELECTOR.findall(expr):
        metric = metric_of(name)
        if metric is None:
            yield f"no metric {name}"
            continue
        own = {*metric.labels, *({"le"} if metric.shape == "histogram" else set())}
        labels |= own
        yield from (
            f"{name} has no label {one}" for one in MATCHER.findall(selector) if one not in own
        )
    grouped = {one.strip() for group in GROUP.findall(expr) for one in group.split(",")}
    yield from (f"nothing has a label {one}" for one in grouped - labels)
    kept = re.findall(r"\bby\s*\(([^)]*)\)", expr)
    visible = {one.strip() for one in ",".join(kept).split(",")} if kept else labels
    used = set(re.findall(r"\{\{(\w+)\}\}", legend))
    yield from (f"the legend has no label {one}" for one in used - visible)


def test_every_expression_names_what_there_is() -> None:
    """Metrics of the list, with labels that they have, in legends too."""
    targets = [target for panel in dashboard().panels for target in panel.targets]
    assert len(targets) > 20
    assert [w for one in targets for w in wrong(one.expr, one.legendFormat)] == []


@pytest.mark.parametrize(
    ("expr", "legend", "said"),
    [
        ("sum(roost_invented)", "", "no metric roost_invented"),
        ("roost_ttft_seconds", "", "no metric roost_ttft_seconds"),
        ("roost_queued_bucket", "", "no metric roost_queued_bucket"),
        ('roost_queued{node="n"}', "", "roost_queued has no label node"),
        ("sum by (node) (roost_queued)", "", "nothing has a label node"),
        ("sum by (node) (roost_in_flight)", "{{model}}", "the legend has no label model"),
        ("sum(roost_queued", "", "brackets: sum(roost_queued"),
    ],
)
def test_what_does_not_exist_is_found(expr: str, legend: str, said: str) -> None:
    """Each way to be wrong."""
    assert said in list(wrong(expr, legend))


def test_the_questions_of_variables_exist_too() -> None:
    """The list of nodes is asked of a metric that has nodes."""
    queries = [str(one.get("definition", "")) for one in dashboard().templating["list"]]
    (asked,) = [re.fullmatch(r"label_values\((\w+), (\w+)\)", one) for one in queries if one]
    assert asked is not None
    metric = metric_of(asked[1])
    assert metric is not None
    assert asked[2] in metric.labels


def test_panels_say_what_they_show_and_do_not_overlap() -> None:
    """Each has its own place, a unit of meaning, and an id of its own."""
    panels = dashboard().panels
    assert len({panel.id for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel.type == "row" or panel.description.endswith(".")
        at = panel.gridPos
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & cells
        taken |= cells
        assert at["x"] + at["w"] <= 24


def test_the_histograms_people_ask_for_are_shown() -> None:
    """First token, every gap, the queue, writes, cancels and loads."""
    shown = {
        name for panel in dashboard().panels for t in panel.targets for name in NAME.findall(t.expr)
    }
    histograms = {metric.name for metric in METRICS if metric.shape == "histogram"}
    wanted = {"ttft", "inter_token", "queue", "write", "cancel_to_free", "runtime_load"}
    assert {f"roost_{one}_seconds" for one in wanted} <= histograms
    assert {f"roost_{one}_seconds_bucket" for one in wanted} <= shown


def test_prometheus_reads_a_gateway_where_it_is() -> None:
    """The address of a gateway that was told nothing, and its path for metrics."""
    read = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text("utf-8"))
    (job,) = cast("list[dict[str, object]]", read["scrape_configs"])
    defaults = {row.name: row.default for row in TABLE}
    (static,) = cast("list[dict[str, list[str]]]", job["static_configs"])
    assert static["targets"] == [f"{defaults['host']}:{defaults['port']}"]
    assert job["metrics_path"] == "/metrics"
