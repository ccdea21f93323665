"""SHELL: the HTTP front: bytes to requests under limits, access control, routes, replies."""
