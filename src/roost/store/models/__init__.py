"""DECIDER: models that are installed: what their files say, and one manifest each."""
