"""SHELL: one turn: its stream from the fleet, its reply to the client, its account."""
