"""DECIDER: how a model's runtime stands, in a few words for lists."""

from __future__ import annotations

from collections.abc import Mapping


def standing(view: Mapping[str, object]) -> str:
    """Say what a runtime does: how far its load is, whether it is used, for how long it stays."""
    facts = [state(view)]
    if view.get("pinned"):
        facts.append("pinned")
    idle_s, unload_in_s = view.get("idle_s"), view.get("unload_in_s")
    if isinstance(idle_s, float):
        facts.append(f"idle {idle_s:.0f} s")
    elif view["state"] == "ready":
        facts.append("in use")
    if isinstance(unload_in_s, float):
        facts.append(f"unloads in {unload_in_s:.0f} s")
    return ", ".join(facts)


def state(view: Mapping[str, object]) -> str:
    """Name the state of a runtime, and how far a load has come."""
    progress = view.get("progress")
    share = f" {progress:.0%}" if isinstance(progress, float) else ""
    return f"{view['state']}{share}"
