"""MACHINE: where models are loaded, and what that costs."""
