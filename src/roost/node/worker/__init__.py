"""SHELL: the worker API: the protocol of system 1 at a node itself."""
