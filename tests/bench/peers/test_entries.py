"""Every peer is told where it stands, who is behind it, and nothing outside this machine."""

from __future__ import annotations

import re

import pytest

from roost.bench.peers.entries import FILE, PEERS, Site

SITE = Site(8100, (8201, 8202, 8203), 8300, "/somewhere", "m")
ADDRESS = re.compile(r"https?://([^:/;\s\"]+)")


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_is_told_its_port_and_every_server(name: str) -> None:
    """On its command line or in the file that it is given."""
    launch = PEERS[name].launch(SITE)
    told = "\n".join((*launch.words, launch.text))
    assert all(str(port) in told for port in (SITE.port, *SITE.servers))
    assert bool(launch.text) == (f"{SITE.folder}/{FILE}" in launch.words)
    assert {host for host in ADDRESS.findall(told) if host != "servers"} <= {"127.0.0.1"}


def test_two_peers_of_one_program_differ() -> None:
    """One program may be there twice, with other words each time."""
    words = [(peer.program, peer.launch(SITE).words) for peer in PEERS.values()]
    assert len(words) == len(set(words))
