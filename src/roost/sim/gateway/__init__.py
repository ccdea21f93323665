"""MACHINE: a simulated gateway: production machines without sockets."""
