"""SHELL: from messages to a prompt: foreign chat templates run in a child."""
