"""VALUE: which texts can be the name of a machine, whose it is, and how an address has it."""

from __future__ import annotations

import ipaddress

LABEL_MAX = 63
"""The most letters between two dots."""


def is_host(text: str) -> bool:
    """Whether this is an address or a name that can be looked up, with or without an answer.

    What it refuses fails a look-up with an error of encodings, which nobody expects of a network.
    """
    if not text.isascii():
        try:
            text = text.encode("idna").decode("ascii")
        except UnicodeError:
            return False
    return all(0 < len(label) <= LABEL_MAX for label in text.removesuffix(".").split("."))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there; of other names nobody knows."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_address(host: str) -> str:
    """Write a host as an address has it, before a port: one of IPv6 stands in brackets."""
    return f"[{host}]" if ":" in host else host
