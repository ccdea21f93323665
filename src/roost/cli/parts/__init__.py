"""WIRING: from settings and stores to what serving verbs are made of."""
