"""SHELL: the process that clients talk to."""
