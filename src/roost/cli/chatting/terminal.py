"""SHELL: where lines of `roost chat` come from and where its words go: a terminal, or pipes."""

from __future__ import annotations

import io
import sys

from roost.config.read import read_environment
from roost.text.screen import screened


class Terminal:
    """Standard input and output; `watched` where both are a terminal with somebody before it.

    Where they are not, nothing but answers goes to standard output.
    """

    def __init__(self) -> None:
        self.watched = sys.stdin.isatty() and sys.stdout.isatty()
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A byte that is no text, or a letter that the terminal has not, ends no chat.
                stream.reconfigure(errors="replace")
        if self.watched:
            _edit_lines()

    def read(self, prompt: str) -> str:
        """Read a line; raises `EOFError` at the end and `KeyboardInterrupt` for Ctrl-C."""
        if self.watched:
            return input(prompt)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.removesuffix("\n")

    def show(self, text: str) -> None:
        """Write a piece of an answer, at once."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def end_line(self) -> None:
        """Leave the line of a prompt that was not answered."""
        if self.watched:
            print()

    def tell(self, text: str) -> None:
        """Write a line about the chat, that is no part of it."""
        print(screened(text), file=sys.stdout if self.watched else sys.stderr, flush=True)


def _edit_lines() -> None:
    """Let lines be edited, recalled, and pasted as many; what was typed is written to no file."""
    try:
        import readline
    except ImportError:
        # Not every Python is built with it; lines can be typed all the same.
        return
    if read_environment().get("TERM", "dumb") != "dumb":
        # Python turns this off for its own prompt, where a pasted text is to run line by line.
        readline.parse_and_bind("set enable-bracketed-paste on")
