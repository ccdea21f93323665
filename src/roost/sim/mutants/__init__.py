"""WIRING: defective machines, one defect each, that the claims have to find."""
