"""WIRING: load for any server of the OpenAI dialect, and what came of it."""
