"""MACHINE: one ready runtime: its slots, who sits where, and how it does."""
