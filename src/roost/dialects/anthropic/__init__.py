"""DECIDER: Anthropic's messages."""
