"""The terminal of `roost top`, driven by keys: what is seen, what is asked, what is done."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from roost.cli.dashboard.actions import NOT_ADMIN, NOTHING, Action
from roost.cli.dashboard.app import NAMES, Details, Looked, Question, Rows, TopApp
from roost.cli.dashboard.feed import Feed
from roost.cli.dashboard.source import DemoSource, Look
from roost.errors import RoostError, fail
from tests.cli.dashboard.kit import DONE, FEED, OBSERVED, STREAMING, WAITING, with_rows
from tests.conftest import until

SMALL, LARGE = (80, 24), (140, 45)


class Scene:
    """A source that shows what a test puts there, and remembers what was done."""

    def __init__(self, feed: Feed = FEED) -> None:
        self.url = "http://gateway:7878"
        self.feed = feed
        self.looks = 0
        self.failure: RoostError | None = None
        self.done: list[Action] = []

    def raw(self) -> dict[str, object]:
        """Show it."""
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        return {
            "observability": msgspec.to_builtins(self.feed.observed),
            "fleet": msgspec.to_builtins(self.feed.fleet),
        }

    def act(self, action: Action) -> None:
        """Remember it."""
        if self.failure is not None:
            raise self.failure
        self.done.append(action)


class Seat:
    """Somebody in front of the terminal."""

    def __init__(self, app: TopApp, pilot: Pilot[None]) -> None:
        self.app = app
        self._pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until they have been taken in."""
        await self._pilot.press(*keys)
        await self._pilot.pause()

    async def resize(self, width: int, height: int) -> None:
        """Make the terminal another size."""
        await self._pilot.resize_terminal(width, height)
        await self._pilot.pause()

    def says(self, name: str) -> str:
        """Read a line of text."""
        return str(self.app.screen_stack[0].query_one(f"#{name}", Static).content)

    def rows(self, name: str) -> list[str]:
        """Read a table, one line for each row, without what there is no room for."""
        table = self.app.screen_stack[0].query_one(f"#{name}", DataTable)
        rows = [table.get_row_at(number) for number in range(table.row_count)]
        return [" ".join(str(cell).strip() for cell in row) for row in rows]

    def marked(self, name: str) -> int:
        """Say on which row a table's cursor is."""
        return self.app.screen_stack[0].query_one(f"#{name}", DataTable).cursor_row

    def toasts(self) -> list[str]:
        """Read what was said in passing."""
        return [toast.message for toast in self.app._notifications]  # noqa: SLF001


@asynccontextmanager
async def seated(scene: Scene | DemoSource, size: tuple[int, int] = SMALL) -> AsyncIterator[Seat]:
    """Sit down in front of it; it looks once, and again for `r`."""
    app = TopApp(scene, 3600.0)
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        seat = Seat(app, pilot)
        yield seat
    assert app.return_code in (0, None), "it ended without a traceback"


async def shown(seat: Seat, words: str) -> None:
    """Wait until the summary says this."""
    await until(lambda: words in seat.says("summary"), what=words)


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_everything_is_on_one_screen(size: tuple[int, int]) -> None:
    """Five tables with a row each, a title, a summary, what is odd, and keys; at 80 by 24 too."""
    async with seated(Scene(), size) as seat:
        await shown(seat, "1 run  1 wait")
        await seat.press()
        for name in NAMES:
            table = seat.app.query_one(f"#{name}", DataTable)
            assert table.region.height >= 3, name
            assert table.row_count > 0
            # A row is as wide as its table: nothing is pushed out to the right.
            assert table.virtual_size.width <= table.region.width
            assert seat.app.screen.region.contains_region(table.region)
        assert seat.says("title").startswith("roost top  http://gateway:7878  admin")
        assert "odd: slow_decode" in seat.says("notes")
        assert seat.app.query_one("Footer").region.height == 1
        assert "20% 400/2.0k" in seat.rows("runtimes")[0]
        assert "queued 1/1" in seat.rows("requests")[1]


async def test_another_size_shows_more_or_less() -> None:
    """Columns come and go with the width."""
    async with seated(Scene(), LARGE) as seat:
        await shown(seat, "1 run")
        await seat.press()
        assert "llama" in seat.rows("runtimes")[0]
        await seat.resize(*SMALL)
        await until(lambda: "llama" not in seat.rows("runtimes")[0], what="it is narrow")
        await seat.resize(*LARGE)
        await until(lambda: "llama" in seat.rows("runtimes")[0], what="it is wide again")
        await seat.resize(40, 10)
        await until(lambda: len(seat.rows("nodes")[0]) < 40, what="it is tiny")


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("d", "/roost/v1/nodes/n-garage/drain"),
        ("u", "/roost/v1/nodes/n-garage/unload"),
        ("c", "/roost/v1/requests/4f2a6a10aaaa"),
    ],
)
async def test_a_key_asks_first(key: str, path: str) -> None:
    """Anything but `y` does nothing."""
    scene = Scene()
    async with seated(scene) as seat:
        await shown(seat, "1 run")
        await seat.press(key, "enter")
        assert isinstance(seat.app.screen, Question)
        await seat.press("n")
        assert not isinstance(seat.app.screen, Question)
        assert scene.done == []
        await seat.press(key, "y")
        await until(lambda: bool(scene.done), what="it is done")
        assert [action.path for action in scene.done] == [path]
        await until(lambda: bool(seat.toasts()), what="it is said")
        assert seat.toasts() == [scene.done[0].done]


async def test_the_marked_row_is_meant() -> None:
    """Down one row, and the question is about that one."""
    scene = Scene()
    async with seated(scene) as seat:
        await shown(seat, "1 run")
        await seat.press("down", "c", "y")
        await until(lambda: bool(scene.done), what="it is done")
        assert scene.done[0].path.endswith("/77aa77aa77aa")


async def test_the_mark_goes_with_its_row_while_that_lives() -> None:
    """Rows come and go above it; of what has ended it lets go, so that a key has something."""
    scene = Scene(with_rows(WAITING, STREAMING))
    async with seated(scene) as seat:
        await shown(seat, "1 run")
        await seat.press("down")
        scene.feed = with_rows(STREAMING, WAITING)
        await seat.press("r")
        await until(lambda: seat.marked("requests") == 0, what="it went with its row")
        over = msgspec.structs.replace(STREAMING, state="done")
        scene.feed = with_rows(WAITING, over, DONE)
        await seat.press("r")
        await until(lambda: len(seat.rows("requests")) == 3, what="it is over")
        assert seat.marked("requests") == 0
        await seat.press("c")
        assert isinstance(seat.app.screen, Question)


async def test_what_cannot_be_done_is_said() -> None:
    """Without a row, without the right key, and in the gateway's own words."""
    scene = Scene(with_rows(DONE))
    async with seated(scene) as seat:
        await shown(seat, "0 run")
        await seat.press("c")
        assert seat.toasts()[-1] == NOTHING["cancel"]
        observed = msgspec.structs.replace(OBSERVED, role="user")
        scene.feed = Feed(observed, FEED.fleet)
        await seat.press("r")
        await shown(seat, "1 run")
        await seat.press("d")
        assert seat.toasts()[-1] == NOT_ADMIN
        await seat.press("c")
        scene.failure = fail("not_found", "No request of this id\nis known.")
        await seat.press("y")
        words = "No request of this id is known."
        await until(lambda: words in seat.toasts(), what="it is told why not")
        assert scene.done == []


async def test_what_comes_while_the_page_is_taken_down_is_left() -> None:
    """A timer, a look and a new width may come when nothing is there any more to write on."""
    async with seated(Scene()) as seat:
        await shown(seat, "1 run")
        await seat.app.screen_stack[0].remove_children()
        seat.app.post_message(Looked(Look(FEED, None)))
        seat.app.post_message(Rows.Widened("requests"))
        await seat.press("space")


async def test_a_gateway_that_is_gone_and_comes_back() -> None:
    """What was seen last stays, with since when and why; never a traceback."""
    scene = Scene()
    async with seated(scene) as seat:
        await shown(seat, "1 run")
        # It is said as it is: a terminal's own words in it change nothing.
        scene.failure = fail("upstream_error", "[bold]No gateway answers there.[/")
        await seat.press("r")
        await until(lambda: "[bold]No gateway answers" in seat.says("notes"), what="it is gone")
        assert "trying again" in seat.says("notes")
        assert seat.app.query_one("#title").has_class("gone")
        assert len(seat.rows("requests")) == 3
        scene.failure = None
        await seat.press("r")
        await until(lambda: "No gateway" not in seat.says("notes"), what="it is back")
        assert not seat.app.query_one("#title").has_class("gone")


async def test_no_gateway_from_the_start() -> None:
    """It waits for one, and shows it when it comes."""
    scene = Scene()
    scene.failure = fail("not_found", "No gateway runs here.")
    async with seated(scene) as seat:
        await until(lambda: "No gateway runs here" in seat.says("notes"), what="it says so")
        await seat.press("d")
        assert seat.toasts() == [NOTHING["drain"]]
        scene.failure = None
        await seat.press("r")
        await shown(seat, "1 run")


async def test_pause_zoom_details_and_the_way_out() -> None:
    """The other keys do what they say."""
    scene = Scene()
    async with seated(scene) as seat:
        await shown(seat, "1 run")
        await seat.press("space")
        assert seat.says("title").endswith("PAUSED")
        await seat.press("space")
        assert not seat.says("title").endswith("PAUSED")
        await seat.press("a")
        assert len(seat.rows("requests")) == 2
        await seat.press("a")
        assert len(seat.rows("requests")) == 3
        await seat.press("z")
        table = seat.app.query_one("#requests", DataTable)
        await until(lambda: table.region.height > 15, what="it fills the screen")
        await seat.press("escape")
        await until(lambda: table.region.height < 15, what="it is one of five again")
        await seat.press("enter")
        assert isinstance(seat.app.screen, Details)
        details = str(seat.app.screen.query_one("#question", Static).content)
        assert "request   4f2a6a10aaaa" in details
        await seat.press("escape", "tab")
        assert not isinstance(seat.app.screen, Details)
        await seat.press("q")
    alive = threading.enumerate
    await until(lambda: "looks" not in [one.name for one in alive()], what="nobody looks any more")


async def test_the_fleet_that_is_played_can_be_acted_on() -> None:
    """A request is stopped as a person would stop it, and then it shows."""
    source = DemoSource(7, 30.0, clock=lambda: 1000.0)
    async with seated(source, LARGE) as seat:
        await shown(seat, "run")
        cancelled = "3 cancelled"
        assert cancelled not in seat.says("summary")
        await seat.press("c", "y")
        await shown(seat, cancelled)
