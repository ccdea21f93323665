"""What a node says of itself: looked at in a thread, seldom where it hardly changes."""

from __future__ import annotations

from roost.backends.base import Telemetry
from roost.core.about import BackendAbout, RuntimeAbout
from roost.core.ids import RuntimeId
from roost.errors import fail
from roost.node.machine.about import SLOW_S, Describer
from tests.node.kit import MODEL, Node
from tests.node.tiny import TinyRuntime

NAME = RuntimeId("m#1")


class Quick(TinyRuntime):
    """A runtime that knows its figures."""

    async def telemetry(self) -> Telemetry:
        """Everything is known."""
        return Telemetry(1, 2, 3, 4.0, 5.0)


class Silent(TinyRuntime):
    """A runtime that has just died."""

    async def telemetry(self) -> Telemetry:
        """There is nobody to ask."""
        raise fail("runtime_died", "it died")


class Looks:
    """Counts how often backends are looked at, by a clock that a test turns."""

    def __init__(self) -> None:
        self.count = 0
        self.now = 0.0
        self.describe = Describer(self._look, lambda: self.now)

    def _look(self) -> tuple[BackendAbout, ...]:
        self.count += 1
        return (BackendAbout(f"look {self.count}", usable=True),)


async def test_runtimes_tell_their_own_figures() -> None:
    """What one does not know is unknown, and one that is gone tells nothing."""
    about = await Looks().describe({NAME: Quick(MODEL), RuntimeId("m#2"): Silent(MODEL)})
    assert about.runtimes == (
        RuntimeAbout(NAME, 1, 3, 4.0, 5.0, states=False),
        RuntimeAbout(RuntimeId("m#2"), states=False),
    )
    assert about.processor.usable >= 1
    assert about.memory.total_bytes


async def test_what_hardly_changes_is_looked_at_once_a_while() -> None:
    """Memory every time, engines and accelerators once a minute."""
    looks = Looks()
    for now, name in ((0.0, "look 1"), (SLOW_S - 1, "look 1"), (SLOW_S, "look 2")):
        looks.now = now
        about = await looks.describe({})
        assert [backend.name for backend in about.backends] == [name]


async def test_the_agent_repeats_it_in_its_reports() -> None:
    """Nothing until it was looked at once; then the newest."""
    node = Node()
    assert node.agent.status().about is None
    about = await Looks().describe({})
    node.take(node.agent.on_about(about, node.now))
    assert node.agent.status().about == about
