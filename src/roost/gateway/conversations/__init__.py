"""SHELL: conversations that a gateway keeps: turns, pasts, and pasts made shorter."""
