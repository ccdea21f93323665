"""SHELL: structured logs on stderr; the only module that imports structlog.

Human lines on a terminal, JSON lines otherwise. Events are those of `names.EVENTS`; prompts,
completions and keys are never arguments.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Protocol, cast

import structlog

from roost.observe.names import EVENTS


class Log(Protocol):
    """What the rest of roost needs of a logger."""

    def debug(self, event: str, **facts: object) -> None:
        """Say something that only a developer wants to read."""
        ...

    def info(self, event: str, **facts: object) -> None:
        """Say that something happened."""
        ...

    def warning(self, event: str, **facts: object) -> None:
        """Say that something went wrong and was dealt with."""
        ...

    def error(self, event: str, **facts: object) -> None:
        """Say that something went wrong and somebody has to look."""
        ...


def _printable(
    _logger: object, _name: str, facts: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape what a terminal would obey: a model's name, say, comes from whoever asks."""
    return {key: _escaped(value) for key, value in facts.items()}


def _escaped(value: object) -> object:
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


class _Stderr(structlog.PrintLogger):
    """One whose reader may be gone: that must not stop whoever has something to say."""

    def msg(self, message: str) -> None:
        """Write a line, or lose it."""
        with suppress(OSError, ValueError):
            super().msg(message)

    log = debug = info = warning = error = msg


def configure(level: str = "info", form: str = "auto") -> None:
    """Set up stderr once per process: `level` debug|info|warning|error, `form` auto|json|human."""
    human = form == "human" or (form == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(pad_event_to=18)
        if human
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _printable,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        # Looked up when a line is written: whoever redirects stderr later gets the lines.
        logger_factory=lambda *_: _Stderr(sys.stderr),
        cache_logger_on_first_use=False,
    )


def get(**facts: object) -> Log:
    """Return a logger that adds these facts to each of its lines."""
    return cast("Log", structlog.get_logger(**facts))


def known(event: str) -> bool:
    """Whether this event is in the list."""
    return event in EVENTS
