"""SHELL: drills: real `roost` processes on loopback under load and under fire, each with a verdict.

`python -m roost.bench.drills` runs them; each is bounded in time, and has a short form for tests.
"""
