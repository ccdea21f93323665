"""DECIDER: which version of the protocol two ends speak, and what may differ between them.

A release speaks its own version and the one before, so that a fleet is upgraded machine by machine,
gateway first or last. What keeps that true:

- A message gets new fields only with a default that means what their absence meant. Who does not
  know them leaves them out.
- A message of a kind that a peer does not know is passed over by it. Kinds since version 2 are said
  only to those who know them all the same: by the version agreed upon, or by what a report has.
- A reason for a failure that a peer does not know counts as `upstream_error` there, in its words.
- A kind of prompt since version 2, and the events that answer it alone, are said only where a
  report has a model for it (its offer's `mode`).
- What is none of these (a field that changes its meaning, a new event in a stream, another word
  where there is a fixed list) is said only where the version agreed upon has it.
"""

from __future__ import annotations

from roost.errors import Failure
from roost.wire.messages import OLDEST, VERSION, Hello, Welcome

SHOWN_MAX = 64


def speaks(hello: Hello) -> tuple[int, int]:
    """Return the oldest and the newest version that a node speaks."""
    return hello.version, max(hello.version, hello.newest)


def agreed(hello: Hello) -> int | None:
    """Return the version for a gateway and this node, the newest that both speak; or None."""
    oldest, newest = speaks(hello)
    version = min(newest, VERSION)
    return version if version >= max(oldest, OLDEST) else None


def accepts(hello: Hello, welcome: Welcome) -> bool:
    """Whether the version that a gateway has chosen is one that this node speaks."""
    oldest, newest = speaks(hello)
    return oldest <= welcome.version <= newest


def no_common(hello: Hello) -> Failure:
    """Say which of the two is too old: the gateway's answer to a node."""
    oldest, newest = speaks(hello)
    if newest < OLDEST:
        has = f", which has {hello.software}," if _can_be_shown(hello.software) else ""
        what = f"Upgrade the node{has} and join again."
    else:
        what = "Upgrade the gateway, and then the node may join."
    return _failure(f"the node speaks {_range(oldest, newest)}", "the gateway", what)


def not_spoken(welcome: Welcome, hello: Hello) -> Failure:
    """Say which of the two is too old: a node's word about a gateway's answer."""
    oldest, newest = speaks(hello)
    what = "Upgrade the gateway." if welcome.version < oldest else "Upgrade this node."
    told = f"the gateway speaks version {welcome.version}"
    return Failure("unsupported", f"{told} of the link, this node {_range(oldest, newest)}. {what}")


def _can_be_shown(text: str) -> bool:
    return 0 < len(text) <= SHOWN_MAX and text.isprintable()


def _failure(told: str, mine: str, what: str) -> Failure:
    return Failure("unsupported", f"{told} of the link, {mine} {_range(OLDEST, VERSION)}. {what}")


def _range(oldest: int, newest: int) -> str:
    return f"version {oldest}" if oldest == newest else f"versions {oldest} to {newest}"
