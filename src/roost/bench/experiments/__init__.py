"""WIRING: the experiments of the project: each is one module that plans, runs, judges and tells."""
