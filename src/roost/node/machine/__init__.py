"""SHELL: what this machine is and how it does."""
