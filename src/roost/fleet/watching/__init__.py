"""MACHINE: what has happened and what is odd, bounded, for people who look on."""
