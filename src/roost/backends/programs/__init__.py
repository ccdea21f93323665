"""SHELL: programs of somebody else's that generate: resident, or one for each request."""
