"""WIRING: `roost sim`: the machines of roost in a simulated world, with faults."""

from __future__ import annotations


def main(arguments: list[str]) -> int:
    """Run seeds; see `roost.sim.run`."""
    from roost.sim.run import main as simulate

    return simulate(arguments)
