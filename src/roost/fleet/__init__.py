"""MACHINE: the mind of the gateway: who is there, who may come in, who serves whom."""
