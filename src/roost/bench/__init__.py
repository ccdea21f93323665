"""SHELL: load generators, sweeps and reports; run as modules, imported by nothing that serves."""
