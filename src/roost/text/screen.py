"""DECIDER: text of others, made fit for a terminal.

What a model, a file or another machine says may hold control characters, and a terminal obeys
those: it moves the cursor, renames the window, or answers with keys that nobody pressed.
"""

from __future__ import annotations

import re

# All of Unicode's category Cc without tab and line feed, which a terminal may have; and the marks
# that turn the direction of what follows, with which a line shows other words than it holds.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SHOWN = "\ufffd"


def screened(text: str) -> str:
    """Return the text with each such character replaced by `SHOWN`; CR LF counts as LF."""
    return _OBEYED.sub(SHOWN, text.replace("\r\n", "\n"))


def in_one_line(text: str) -> str:
    """Do `screened`, and leave nothing that ends a line: for names, and for what reports."""
    return screened(" ".join(text.split()))
