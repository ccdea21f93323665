"""DECIDER: the protocols of system 1: turns at its coordinator, and its workers."""
