"""MACHINE: a simulated worker machine: the production agent over toy engines."""
