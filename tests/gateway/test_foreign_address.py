"""Where workers of system 1 may be, and every trick to be somewhere else."""

from __future__ import annotations

import pytest

from roost.errors import Failure, RoostError
from roost.gateway.foreign.address import OUTSIDE, admitted, literal, read_nets, read_url
from roost.gateway.upstream.targets import Target

NETS = read_nets(["10.1.0.0/16", "fd00::/8", "127.0.0.1"])


def test_a_plain_address_is_taken_and_pinned() -> None:
    """What was checked is what is dialled; the name stays for the Host header."""
    target = read_url("http://worker-1:3001/base")
    pinned = admitted(target, ["10.1.2.3", "fd00::1"], NETS)
    assert isinstance(pinned, Target)
    assert (pinned.host, pinned.port, pinned.base) == ("10.1.2.3", 3001, "/base")
    assert pinned.authority == "worker-1:3001"


@pytest.mark.parametrize(
    "found",
    [
        [],
        ["10.2.0.1"],
        ["10.2.0.1", "192.168.0.1"],
        ["127.0.0.2"],
        ["::1"],
        ["::ffff:192.168.0.1"],
        ["0.0.0.0"],
        ["::"],
        ["no address"],
    ],
)
def test_no_address_outside_is_ever_dialled(found: list[str]) -> None:
    """However a name is resolved, and whatever else it means."""
    assert admitted(read_url("http://w:1"), found, NETS) == OUTSIDE


def test_of_several_addresses_one_inside_is_dialled() -> None:
    """As for `localhost`, which has two; the others are nobody's business."""
    pinned = admitted(read_url("http://localhost:1"), ["::1", "127.0.0.1"], NETS)
    assert isinstance(pinned, Target)
    assert (pinned.host, pinned.called) == ("127.0.0.1", "localhost")


def test_an_address_of_ipv4_in_the_clothes_of_ipv6_is_what_it_stands_for() -> None:
    """The mapped form opens nothing, and closes nothing."""
    pinned = admitted(read_url("http://[::ffff:10.1.0.9]:1"), ["::ffff:10.1.0.9"], NETS)
    assert isinstance(pinned, Target)
    assert pinned.host == "10.1.0.9"


@pytest.mark.parametrize("address", ["169.254.169.254", "224.0.0.1", "fe80::1", "ff02::1"])
def test_everywhere_is_not_where_secrets_are(address: str) -> None:
    """A net of all addresses is no permission for link-local and multicast ones."""
    assert admitted(read_url("http://w:1"), [address], read_nets(["0.0.0.0/0", "::/0"])) == OUTSIDE


def test_a_link_local_net_may_be_named() -> None:
    """Whoever names it means it."""
    nets = read_nets(["169.254.0.0/16"])
    assert isinstance(admitted(read_url("http://w:1"), ["169.254.7.7"], nets), Target)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "worker:3001",
        "ftp://10.1.0.1",
        "file:///etc/passwd",
        "http://",
        "http://user@10.1.0.1",
        "http://10.1.0.1@evil",
        "http://10.1.0.1\\@evil",
        "http://10.1.0.1:0",
        "http://10.1.0.1:70000",
        "http://10.1.0.1:3001?x=1",
        "http://10.1.0.1/#x",
        "http://10.1.0.1/a b",
        "http://10.1.0.1/\r\nx: y",
        "http://[fe80::1%25eth0]:1",
        "name=http://10.1.0.1",
        "HTTP://10.1.0.1",
        " http://10.1.0.1",
    ],
)
def test_only_plain_addresses_are_read(url: str) -> None:
    """One parser, one form."""
    with pytest.raises(RoostError) as caught:
        read_url(url)
    assert (caught.value.failure.reason, caught.value.failure.param) == (
        "bad_request",
        "worker_url",
    )


def test_numbers_that_are_addresses_to_others_are_names_here() -> None:
    """2130706433 is resolved like any name, and what comes of that is checked."""
    assert not literal("2130706433")
    assert not literal("0x7f.1")
    assert literal("10.1.0.1")
    assert literal("fd00::1")


@pytest.mark.parametrize("text", ["everywhere", "10.1.0.0/33", "10.1.0.1/16", ""])
def test_nets_are_nets(text: str) -> None:
    """What is none is a setting that is wrong."""
    with pytest.raises(RoostError) as caught:
        read_nets([text])
    assert isinstance(caught.value.failure, Failure)
    assert caught.value.failure.param == "coordinator.worker_nets"
