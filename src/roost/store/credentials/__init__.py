"""DECIDER: keys, join tokens and certificates, and what keys have used."""
