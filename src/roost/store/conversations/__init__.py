"""SHELL: conversations and responses, and the thread that owns their file."""
