"""SHELL: what `roost doctor` looks at, and what it makes of that."""
