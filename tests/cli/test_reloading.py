"""What HUP changes: all parts or none, and a word about what has to wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.cli.parts.node_limits import NODE
from roost.cli.parts.takers import CERTIFICATE, CREDENTIALS, FLEET, LIMITS, SERVERS
from roost.cli.reloading import Reloads, Taker
from roost.cli.verbs import gateway, node, serve
from roost.config import TABLE, Machine, Settings, load
from roost.errors import fail

MACHINE = Machine(4, "/home")
USED = frozenset({"queue_length", "queue_wait_s", "port"})


class Said:
    """A log that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, object]] = []

    def debug(self, event: str, **facts: object) -> None:
        """Remember."""
        self.lines.append((event, next(iter(facts.values()))))

    info = warning = error = debug


class World:
    """One verb, with a file that can be rewritten."""

    def __init__(self) -> None:
        self.file = ""
        self.said = Said()
        self.taken: list[int] = []
        self.reloads = Reloads(self.read(), USED, self.read, self.said)
        self.reloads.add(Taker(("queue.length",), self.prepare))

    def read(self) -> Settings:
        """Read the file."""
        return load({}, {}, self.file, MACHINE).settings

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Follow the length of the queue."""
        return lambda: self.taken.append(settings.queue_length)


def test_what_changed_is_taken_and_told() -> None:
    """Followed settings count at once; one that needs a restart is named; others are nobody's."""
    world = World()
    world.reloads.open()
    assert world.said.lines == []
    world.file = "port = 1\nstrict = true\n[queue]\nlength = 3\n"
    world.reloads.on_hup()
    assert world.taken == [3]
    assert world.said.lines == [
        ("reloaded", ["queue.length"]),
        ("reload_needs_restart", ["port"]),
    ]
    world.reloads.on_hup()
    assert world.said.lines[2:] == [("reloaded", []), ("reload_needs_restart", ["port"])]


def test_what_is_taken_back_needs_no_restart() -> None:
    """A process that runs with what the file says waits for nothing."""
    world = World()
    world.reloads.open()
    for world.file in ("port = 1\n", ""):
        world.reloads.on_hup()
    assert world.said.lines == [
        ("reloaded", []),
        ("reload_needs_restart", ["port"]),
        ("reloaded", []),
    ]


@pytest.mark.parametrize("file", ["nonsense", "[queue]\nlength = -1\n", "queue = 1"])
def test_a_wrong_file_changes_nothing(file: str) -> None:
    """The old settings stay, and the log says what is wrong."""
    world = World()
    world.reloads.open()
    world.file = file
    world.reloads.on_hup()
    assert world.taken == []
    assert [event for event, _ in world.said.lines] == ["reload_refused"]


def test_one_that_cannot_keeps_all_from_it() -> None:
    """Whoever was asked before has taken nothing."""

    def refuse(_: Settings) -> Callable[[], None]:
        raise fail("bad_request", "not while it rains")

    world = World()
    world.reloads.add(Taker(("queue.wait_s",), refuse))
    world.reloads.open()
    world.file = "[queue]\nlength = 3\n"
    world.reloads.on_hup()
    assert world.taken == []
    assert world.said.lines == [("reload_refused", "not while it rains")]


def test_one_that_comes_too_early_counts_later() -> None:
    """Before everything is up nobody could follow; once it is, it counts, once."""
    world = World()
    world.file = "[queue]\nlength = 3\n"
    world.reloads.on_hup()
    world.reloads.on_hup()
    assert (world.taken, world.said.lines) == ([], [])
    world.reloads.open()
    assert world.taken == [3]


def test_every_setting_is_a_flag_of_whoever_serves() -> None:
    """But for those of verbs that ask; of one that is no flag HUP would say nothing."""
    used = {name for verb in (serve, gateway, node) for name in vars(verb.flags().parse_args([]))}
    assert {row.name for row in TABLE if row.attribute not in used} == {"url", "api_key"}


def test_the_table_says_what_is_followed() -> None:
    """What documentation calls reloadable is what some part follows, and nothing else."""
    followed = {*LIMITS, *FLEET, *CERTIFICATE, *CREDENTIALS, *SERVERS, *NODE}
    followed |= {"log_level", "log_format"}
    assert {row.name for row in TABLE if row.reloadable} == followed
