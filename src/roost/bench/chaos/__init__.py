"""WIRING: faults done to a fleet of real processes under load, and which promises it kept."""
