"""MACHINE: which models have a runtime here, what room they take, and who has to go."""
