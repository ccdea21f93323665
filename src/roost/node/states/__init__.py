"""MACHINE: what slots held, put aside as files: kept, moved, shared, and given back."""
