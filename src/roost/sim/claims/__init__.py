"""DECIDER: what must be true of every run, whatever went wrong in it."""
