"""MACHINE: conversations with a name: their turns, their home, and their past made shorter."""
