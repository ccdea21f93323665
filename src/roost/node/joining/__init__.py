"""SHELL: a node's ends of its links: dialled, pinned, reported over."""
