"""SHELL: why a child has ended while it loaded a model, as far as its log tells."""

from __future__ import annotations

import re

from roost.backends.processes.child import Child
from roost.errors import Failure
from roost.text.screen import screened

LOG_LINES = 80
SHOWN_CHARS_MAX = 300
# llama.cpp says of a header that it cannot read what is wrong in it, and then only that it failed.
_CAUSES = re.compile(
    r"gguf_init_\w+: (.+)|error loading model: (.+)"
    r"|(the program cannot be started: .+)|error: (.+)"
)
_MEMORY = re.compile(
    r"(?:failed|unable) to allocate|cannot allocate memory|alloc\w* failed|out ?of ?memory"
    r"|bad_alloc",
    re.IGNORECASE,
)
_PATH = re.compile(r"\S*/\S+")
_KEY = re.compile(r"[0-9A-Fa-f]{32,}")
_STAMP = re.compile(r"^[\d.]+ [A-Z] ")


def why_ended(child: Child) -> Failure:
    """Find the cause in the log of a child that ended; paths in it are nobody's business."""
    lines = child.tail(LOG_LINES)
    if short := next(filter(_MEMORY.search, lines), None):
        message = f"The machine has not enough memory left for the model: {_shown(short)}."
        return Failure("out_of_memory", message)
    for line in lines:
        if found := _CAUSES.search(line):
            cause = next(group for group in found.groups() if group)
            return Failure("load_failed", f"The model cannot be loaded: {_shown(cause)}.")
    ended = f"The runtime ended while it loaded the model (status {child.status})"
    last = next((line for line in reversed(lines) if line.strip()), "")
    words = f"; its last words: {_shown(last)}" if last else ", without a word."
    return Failure("out_of_memory" if child.was_killed else "load_failed", ended + words)


def _shown(line: str) -> str:
    """Make a line of a log fit for a message: short, without paths, keys and control characters."""
    plain = _KEY.sub("…", _PATH.sub("…", screened(_STAMP.sub("", line).strip())))
    return plain[:SHOWN_CHARS_MAX]
