"""SHELL: what roost keeps on disk: models and their manifests, keys, tokens, records of itself."""
