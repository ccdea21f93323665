"""SHELL: the stateless gateway: any OpenAI-compatible servers behind one address."""
