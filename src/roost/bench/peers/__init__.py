"""WIRING: other gateways: how each is started, and what it does when a server behind it dies."""
