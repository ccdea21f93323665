"""SHELL: from an HTTP call to a turn, and from its events to a reply."""
