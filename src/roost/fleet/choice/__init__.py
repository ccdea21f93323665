"""MACHINE: which node gets a request: candidates, scores, and the lease on what was chosen."""
