"""DECIDER: the part of Ollama's API that clients use."""
