"""MACHINE: who there is: nodes that join, report, are left and hand over."""
