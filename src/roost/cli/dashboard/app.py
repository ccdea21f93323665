"""SHELL: the page on a terminal, and what keys do; the only module that imports Textual."""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static

from roost.cli.dashboard.actions import TABLES, Action, Key, action_of
from roost.cli.dashboard.page import Page, Standing, page_of
from roost.cli.dashboard.source import Look, Poller, done
from roost.cli.dashboard.tables import Line, Table, Target, fitted
from roost.errors import Failure
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from textual import events

    from roost.cli.dashboard.feed import Feed
    from roost.cli.dashboard.source import Source

SAMPLES = 90
"""So many looks are remembered for the curve."""
NARROW = 100
LOOKS = {
    "": "",
    "good": "green",
    "warn": "yellow",
    "bad": "bold red",
    "dim": "dim",
    "strong": "bold",
}
NAMES = ("nodes", "runtimes", "requests", "queue", "events")


class Looked(Message):
    """The gateway was looked at."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look


class Acted(Message):
    """Something was done, or not."""

    def __init__(self, action: Action, failure: Failure | None) -> None:
        super().__init__()
        self.action = action
        self.failure = failure


class Question(ModalScreen[bool]):
    """Asks before something is done; only `y` does it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q", "answer(False)", "no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Show the question and how to answer it."""
        yield Static(Text(f"{self._question}\n\ny yes   n no"), id="question")

    def action_answer(self, yes: bool) -> None:  # noqa: FBT001 - bindings pass no keywords
        """Go back with an answer."""
        self.dismiss(yes)


class Details(ModalScreen[None]):
    """Shows all of one row, also what its table had no room for."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss", "back")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Show the row."""
        yield Static(Text(self._text), id="question")


class Rows(DataTable[Text]):
    """A table that has itself filled anew when it is as wide as something else."""

    class Widened(Message):
        """A table has another width."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.table = name

    def __init__(self, name: str) -> None:
        super().__init__(id=name, cursor_type="row", cell_padding=0)
        self.filled_width = 0

    @property
    def room(self) -> int:
        """Characters of a row that can be seen."""
        return self.scrollable_content_region.width

    def on_resize(self) -> None:
        """Ask for what fits."""
        if self.room != self.filled_width:
            self.post_message(Rows.Widened(self.id or ""))


class TopApp(App[None]):
    """`roost top`."""

    CSS = """
    #title { background: $primary; color: $text; height: 1; }
    #title.gone { background: $error; }
    #summary { height: 1; }
    #notes { height: auto; max-height: 4; display: none; }
    DataTable { border-top: solid $primary; height: 2fr; min-height: 3; scrollbar-size: 1 1; }
    DataTable:focus { border-top: solid $accent; }
    #requests { height: 3fr; }
    #below { height: 2fr; min-height: 3; }
    #queue { width: 2fr; height: 1fr; border-right: blank; }
    #events { width: 3fr; height: 1fr; }
    .narrow #queue { width: 1fr; }
    .narrow #events { width: 1fr; }
    Question, Details { align: center middle; }
    #question { width: 72; max-width: 90%; height: auto; padding: 1 2; border: thick $accent;
        background: $surface; }
    """
    ENABLE_COMMAND_PALETTE = False
    TITLE = "roost top"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "quit"),
        Binding("space", "pause", "pause"),
        Binding("d", "act('drain')", "drain"),
        Binding("u", "act('unload')", "unload"),
        Binding("c", "act('cancel')", "cancel"),
        Binding("a", "live_only", "live/all"),
        Binding("z", "zoom", "zoom"),
        Binding("r", "look", "now"),
        Binding("escape", "unzoom", show=False),
        Binding("tab", "app.focus_next", "next"),
    ]

    def __init__(self, source: Source, interval_s: float) -> None:
        super().__init__()
        self._source = source
        self._poller = Poller(source, interval_s, lambda look: self._hear(Looked(look)))
        self._feed: Feed | None = None
        self._rates: deque[float] = deque(maxlen=SAMPLES)
        self._gone, self._gone_since_s = "", 0.0
        self._live_only = False
        self._page = page_of(None, Standing(source.url))
        self._lines: dict[str, tuple[Line, ...]] = {}

    # --- the screen

    def compose(self) -> ComposeResult:
        """Put the parts below each other."""
        yield Static(id="title")
        yield Static(id="summary")
        yield Static(id="notes")
        for name in NAMES[:3]:
            yield Rows(name)
        with Horizontal(id="below"):
            for name in NAMES[3:]:
                yield Rows(name)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to look."""
        self._draw()
        self.query_one("#requests").focus()
        self._poller.start()
        self.set_interval(1.0, self._on_second)

    def on_unmount(self) -> None:
        """Look no more."""
        self._poller.stop()

    def on_resize(self, event: events.Resize) -> None:
        """Give the tables their shares; each fills itself once it has its new width."""
        self.set_class(event.size.width < NARROW, "narrow")

    def on_rows_widened(self, message: Rows.Widened) -> None:
        """Fill one table anew."""
        if self._there:
            self._fill(next(one for one in self._page.tables if one.name == message.table))

    def _on_second(self) -> None:
        if self._gone:
            # The time since when has to go on though nothing comes.
            self._draw()

    # --- what is seen

    def on_looked(self, message: Looked) -> None:
        """Show what was seen; what was seen last stays while nothing is."""
        feed, failure = message.look.feed, message.look.failure
        if failure is not None:
            if not self._gone:
                self._gone_since_s = time.monotonic()
            self._gone = failure.message
        if feed is not None:
            self._feed, self._gone = feed, ""
            if feed.tokens_per_s is not None:
                self._rates.append(feed.tokens_per_s)
        self._draw()

    @property
    def _there(self) -> bool:
        """Whether there is a page to write on: timers outlive it for a moment at the end."""
        return bool(self.screen_stack and self.screen_stack[0].query("#title"))

    def _draw(self) -> None:
        if not self._there:
            return
        standing = Standing(
            self._source.url,
            self._gone,
            time.monotonic() - self._gone_since_s,
            self._poller.paused,
            self._live_only,
            tuple(self._rates),
        )
        self._page = page_of(self._feed, standing)
        with self.batch_update():
            self._write(self._page)

    def _write(self, page: Page) -> None:
        # What asks stands before it: the page goes on behind.
        behind = self.screen_stack[0]
        title, notes = behind.query_one("#title", Static), behind.query_one("#notes", Static)
        title.set_class(bool(self._gone), "gone")
        title.update(Text(page.title, no_wrap=True, overflow="ellipsis"))
        summary = Text(page.summary or "asking …", no_wrap=True, overflow="ellipsis")
        behind.query_one("#summary", Static).update(summary)
        lines = [Text(note.text, style=LOOKS[note.look]) for note in page.notes]
        notes.display = bool(lines)
        notes.update(Text("\n").join(lines))
        for table in page.tables:
            self._fill(table)

    def _fill(self, table: Table) -> None:
        widget = self.screen_stack[0].query_one(f"#{table.name}", Rows)
        widget.border_title = table.title
        widget.filled_width = widget.room
        shown, widths = fitted(table, widget.room or self.size.width)
        row = _followed(self._marked(table.name), widget.cursor_row, table)
        scrolled = widget.scroll_y
        widget.clear(columns=True)
        for column, wide in zip(shown.columns, widths, strict=True):
            title = column.title.rjust(wide) if column.right else column.title
            widget.add_column(Text(title[:wide], style="dim"), width=wide + 1)
        rights = [column.right for column in shown.columns]
        for line in shown.lines:
            cells = zip(line.cells, rights, widths, strict=True)
            texts = [
                Text(cell.text.rjust(wide) if right else cell.text, style=LOOKS[cell.look])
                for cell, right, wide in cells
            ]
            widget.add_row(*texts)
        self._lines[table.name] = table.lines
        widget.move_cursor(row=row, scroll=False)
        widget.scroll_to(y=scrolled, animate=False)

    def _marked(self, name: str) -> Line | None:
        lines, widget = self._lines.get(name, ()), self.screen_stack[0].query_one(f"#{name}", Rows)
        return lines[widget.cursor_row] if 0 <= widget.cursor_row < len(lines) else None

    # --- keys

    def action_pause(self) -> None:
        """Look no more, or again."""
        self._poller.paused = not self._poller.paused
        self._poller.poke()
        self._draw()

    def action_look(self) -> None:
        """Look now."""
        self._poller.poke()

    def action_live_only(self) -> None:
        """Show requests that have ended, or do not."""
        self._live_only = not self._live_only
        self._draw()

    def action_zoom(self) -> None:
        """Show the table that is marked alone, or all again."""
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif self.focused is not None:
            self.screen.maximize(self.focused)

    def action_unzoom(self) -> None:
        """Show all tables again."""
        self.screen.minimize()

    def action_act(self, key: Key) -> None:
        """Ask whether something is to be done about the marked row of a key's table."""
        line = self._marked(TABLES[key])
        target: Target | None = None if line is None else line.target
        role = "" if self._feed is None else self._feed.observed.role
        action = action_of(key, target, role)
        if isinstance(action, str):
            self.notify(action, severity="warning", markup=False)
        else:
            self.push_screen(Question(action.question), partial(self._on_answer, action))

    def _on_answer(self, action: Action, yes: bool | None) -> None:  # noqa: FBT001
        if yes:
            threading.Thread(target=self._act, args=(action,), name="act", daemon=True).start()

    def _act(self, action: Action) -> None:
        self._hear(Acted(action, done(self._source, action)))

    def _hear(self, message: Message) -> None:
        """Take in what another thread has to say, if there still is anybody who listens."""
        if self.is_running:
            self.post_message(message)

    def on_acted(self, message: Acted) -> None:
        """Say what came of it, and look."""
        if message.failure is None:
            self.notify(message.action.done, markup=False)
        else:
            self.notify(in_one_line(message.failure.message), severity="error", markup=False)
        self._poller.poke()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show all of a row."""
        name = event.data_table.id or ""
        table = next(one for one in self._page.tables if one.name == name)
        line = self._marked(name)
        if line is not None:
            pairs = zip(table.columns, line.cells, strict=True)
            text = "\n".join(f"{c.title.lower():<9} {in_one_line(cell.text)}" for c, cell in pairs)
            self.push_screen(Details(text))


def _followed(marked: Line | None, row: int, table: Table) -> int:
    """Return where the cursor goes: with its row, but not with a request that has ended.

    What is on top of a table whose rows nobody can act on stays there: the newest event.
    """
    for place, line in enumerate(table.lines):
        if marked is not None and line.key == marked.key:
            ended = marked.target is not None and line.target is None
            stays = ended or (row == 0 and line.target is None)
            return row if stays else place
    return row


def show(source: Source, interval_s: float, *, animated: bool) -> None:
    """Take the terminal until somebody leaves."""
    app = TopApp(source, interval_s)
    if not animated:
        app.animation_level = "none"
    app.run()
