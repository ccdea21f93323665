"""WIRING: the kinds of `roost bench`."""
