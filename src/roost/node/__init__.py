"""MACHINE: a worker machine's agent: its models, runtimes, slots, limits and links."""
