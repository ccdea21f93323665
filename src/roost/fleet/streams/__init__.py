"""MACHINE: one request's stream towards its client, once or again."""
