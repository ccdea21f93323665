"""How runtimes stand, in lists of nodes and models."""

from __future__ import annotations

import pytest

from roost.cli.standing import standing
from roost.cli.verbs.fleet import row
from roost.cli.verbs.placement import told

READY: dict[str, object] = {"model": "m", "runtime": "m#1", "state": "ready", "slots": []}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "ready, in use"),
        ({"idle_s": 3.0}, "ready, idle 3 s"),
        ({"idle_s": 3.0, "unload_in_s": 57.2}, "ready, idle 3 s, unloads in 57 s"),
        ({"idle_s": 3.0, "pinned": True}, "ready, pinned, idle 3 s"),
        ({"state": "loading", "progress": 0.25}, "loading 25%"),
        ({"state": "loading", "progress": None}, "loading"),
        ({"state": "stopping"}, "stopping"),
    ],
)
def test_what_is_known_is_said(more: dict[str, object], said: str) -> None:
    """Unknown figures are left out, not 0."""
    assert standing({**READY, **more}) == said


def test_nodes_show_what_is_loaded_on_them() -> None:
    """Models that are not, without a word more."""
    node = {
        "id": "n1",
        "name": "bench",
        "state": "alive",
        "draining": False,
        "in_flight": 0,
        "max_in_flight": 4,
        "models": [{"model": "m"}, {"model": "other"}],
        "runtimes": [
            {**READY, "idle_s": 3.0, "pinned": True},
            {"model": "other", "runtime": None, "state": "absent", "slots": []},
        ],
    }
    assert row(node).endswith("0/4 in flight  m (ready, pinned, idle 3 s), other")


def test_placement_shows_how_long_a_runtime_stays() -> None:
    """And of nodes without one what it would cost, as before."""
    ready = {**READY, "node": "n1", "why": "", "progress": None, "idle_s": 9.0, "unload_in_s": 1.0}
    cold = {"node": "n2", "state": "cold", "why": "", "price_s": 1.5, "evicts": []}
    model = {"model": "m", "ready": 1, "loading": 0, "wanted": 1, "waiting": 0}
    lines = told({**model, "nodes": [ready, cold]}).splitlines()
    assert lines[1:] == ["  n1  ready, idle 9 s, unloads in 1 s", "  n2  cold: 1.5 s"]
