"""Which servers stand behind `roost gateway`, from flags and settings, at first and after HUP."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from roost.cli.parts.upstream_list import UpstreamList
from roost.config import Machine, Settings, load
from roost.config.show import describe
from roost.errors import RoostError
from roost.gateway.upstream.targets import Target

MACHINE = Machine(4, "/home")


def settings(urls: str = "", keys: str = "") -> Settings:
    """Load settings that name servers."""
    flags = {"upstream_urls": urls or None, "upstream_keys": keys or None}
    return load({}, flags, "", MACHINE).settings


class Gateway:
    """Remembers what it was told to use."""

    def __init__(self) -> None:
        self.used: list[list[str]] = []

    def use(self, targets: Sequence[Target]) -> None:
        """Take a list."""
        self.used.append([target.name for target in targets])


def test_flags_come_first_and_keys_stay_with_their_servers() -> None:
    """Each list has its own keys, so a short one does not shift the others."""
    given = UpstreamList(["http://a", "http://b"], ["ka"])
    targets = given.read(settings("http://c,d=http://d", "-,kd"))
    assert [(t.name, t.host, t.key) for t in targets] == [
        ("upstream-1", "a", "ka"),
        ("upstream-2", "b", None),
        ("upstream-3", "c", None),
        ("d", "d", "kd"),
    ]
    assert UpstreamList([], []).read(settings()) == ()


@pytest.mark.parametrize(
    ("urls", "keys"), [("nonsense", ""), ("a=http://a,a=http://b", ""), ("http://a", "k,k")]
)
def test_a_wrong_list_names_its_setting(urls: str, keys: str) -> None:
    """What is wrong is told in one sentence, without the key."""
    with pytest.raises(RoostError, match=r"upstream\.") as caught:
        UpstreamList([], []).read(settings(urls, keys))
    assert caught.value.failure.reason == "bad_request"


def test_more_keys_than_servers_on_the_command_line() -> None:
    """A key too many is a mistake."""
    with pytest.raises(RoostError, match="more --upstream-key"):
        UpstreamList(["http://a"], ["k", "k"])


def test_the_list_follows_the_settings() -> None:
    """Only a list that has changed is handed on; servers keep their names."""
    gateway, given = Gateway(), UpstreamList([], [])
    given.attach(given.read(settings("http://a,http://b")), gateway.use)
    given.follow(settings("http://a,http://b"))()
    assert gateway.used == []
    given.follow(settings("http://b,http://c"))()
    given.follow(settings("http://c"))()
    assert gateway.used == [["upstream-2", "upstream-3"], ["upstream-3"]]
    with pytest.raises(RoostError, match="restart"):
        given.follow(settings())()
    assert len(gateway.used) == 2


def test_a_fleet_does_not_become_a_front() -> None:
    """Servers that appear where nodes join are refused out loud; none at all is no change."""
    given = UpstreamList([], [])
    given.follow(settings())()
    with pytest.raises(RoostError, match="restart"):
        given.follow(settings("http://a"))()


def test_keys_are_masked_and_both_rows_reload() -> None:
    """`roost config show` prints no key; the file takes lists of texts."""
    loaded = load({}, {}, "[upstream]\nurls = ['http://a']\nkeys = ['sk-1']\n", MACHINE)
    assert loaded.settings.upstream_urls == ("http://a",)
    assert "sk-1" not in str(describe(loaded))
    with pytest.raises(RoostError) as caught:
        load({}, {}, "[upstream]\nkeys = 'sk-1'\n", MACHINE)
    assert "sk-1" not in caught.value.failure.message
