"""WIRING: `roost bench gateway`: what a gateway costs, beside other gateways that are installed."""

from __future__ import annotations


def main(arguments: list[str]) -> int:
    """Measure; 1 with --strict if a goal was missed."""
    from roost.bench.gateway import main as measured

    return measured(arguments)
