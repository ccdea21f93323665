"""WIRING: the `roost` command."""
