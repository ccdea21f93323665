"""SHELL: children of a node: how they begin, where they listen, how far they are, how they end."""
