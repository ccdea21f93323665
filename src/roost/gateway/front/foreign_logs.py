"""SHELL: what libraries log becomes a debug line of ours, without what a peer has sent.

They write for a console of their own: tracebacks, addresses, frames. Without a handler Python would
print that to stderr in the midst of our lines, whenever anybody sends a broken handshake.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from roost.observe import logs


class _Handler(logging.Handler):
    """Says which sentence was logged, never what was filled into it."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[0] if record.exc_info else None
        logs.get().debug(
            "websocket_note",
            note=str(record.msg).strip(),
            severity=record.levelname.lower(),
            error=error.__name__ if error else None,
        )


_HANDLER = _Handler()


def quieten(names: Iterable[str]) -> None:
    """Take these loggers over; below a warning they stay silent, and that costs nothing."""
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers = [_HANDLER]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
