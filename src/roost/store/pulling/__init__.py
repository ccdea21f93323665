"""SHELL: from a source to an installed model: asked for, fetched, checked."""
