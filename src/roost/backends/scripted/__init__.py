"""SHELL: a backend without a model, for tests and demonstrations."""
