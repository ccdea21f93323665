"""SHELL: metrics, traces and lines about the fleet, for people who look on."""
