"""What only this machine can reach: an address of its own, not a name that looks like one."""

from __future__ import annotations

import pytest

from roost.cli.parts.loopback import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_addresses_of_this_machine_alone(host: str) -> None:
    """Who listens there needs no key and no certificate."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.0.0.1", "127.lan.example", "127.0.0.1.example", "127.", "", "localhost."],
)
def test_what_others_can_reach_or_nobody_knows(host: str) -> None:
    """A name may be looked up to any address, whatever it begins with."""
    assert not is_loopback(host)
