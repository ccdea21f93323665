"""SHELL: what every way to generate has in common, before and beside its turns."""
