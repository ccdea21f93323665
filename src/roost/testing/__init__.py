"""SHELL: what the tests of roost, and of backends written elsewhere, are built from."""
