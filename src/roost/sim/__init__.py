"""MACHINE: the machines of roost in a simulated world."""
