"""DECIDER: where a worker may be: the gateway dials no other address that somebody told it.

A worker's address is checked after its name has been resolved, and the address that was checked is
the one that is dialled: a name could point elsewhere a moment later.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

import msgspec

from roost.errors import Failure, fail
from roost.gateway.upstream.targets import Target, parse_target

Net: TypeAlias = IPv4Network | IPv6Network
Address: TypeAlias = IPv4Address | IPv6Address

OFF = Failure(
    "forbidden", "This gateway takes no workers of system 1: see coordinator.worker_nets."
)
OUTSIDE = Failure(
    "forbidden", "This address is outside of coordinator.worker_nets, where workers may be."
)


def read_nets(texts: Iterable[str]) -> tuple[Net, ...]:
    """Read networks such as 10.1.0.0/16; an address alone is a network of one."""
    nets = []
    for text in texts:
        try:
            nets.append(ip_network(text))
        except ValueError:
            message = f"coordinator.worker_nets: {text!r} is no network such as 10.1.0.0/16."
            raise fail("bad_request", message, param="coordinator.worker_nets") from None
    return tuple(nets)


def read_url(url: str) -> Target:
    """Read a worker's address; `bad_request` for what is not plain http(s)://HOST[:PORT][/PATH]."""
    try:
        if not url.startswith(("http://", "https://")):
            raise ValueError(url)
        return parse_target(url, 0)
    except ValueError:
        message = "'worker_url' must be http(s)://HOST[:PORT], without user, query or fragment."
        raise fail("bad_request", message, param="worker_url") from None


def admitted(target: Target, addresses: Iterable[str], nets: Iterable[Net]) -> Target | Failure:
    """Pin a target to the first of its addresses that is where workers may be."""
    known = tuple(nets)
    for address in map(_plain, addresses):
        if address is not None and _is_inside(address, known):
            return msgspec.structs.replace(target, host=str(address), called=target.host)
    return OUTSIDE


def literal(host: str) -> bool:
    """Whether a host is an address and no name."""
    return _plain(host) is not None


def _plain(text: str) -> Address | None:
    """Read an address; one of IPv4 that is written as IPv6 is what it stands for."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _is_inside(address: Address, nets: tuple[Net, ...]) -> bool:
    if address.is_multicast or address.is_unspecified:
        return False
    # Where clouds keep their secrets: a wide network is no permission for that.
    allowed = [net for net in nets if net.is_link_local or not address.is_link_local]
    return any(address in net for net in allowed)
