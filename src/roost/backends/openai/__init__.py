"""SHELL: servers that speak the OpenAI dialect: somebody else's, or a child."""
