"""DECIDER: OpenAI's responses."""
