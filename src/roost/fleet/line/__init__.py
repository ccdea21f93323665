"""MACHINE: the line in front of the fleet: who may come in, who is next, who is refused."""
