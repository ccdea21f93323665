"""MACHINE: the servers behind a stateless gateway: health, leases, choice."""
