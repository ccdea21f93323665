"""WIRING: the verbs of `roost`, one module each; `cli.main` finds them."""
