"""SHELL: children of a node: how they begin, how far they are, and how they end."""
