"""SHELL: libraries in a process of their own: frames, rounds, runs."""
