"""SHELL: prompts before they run: counted, trimmed, cut into batches."""
