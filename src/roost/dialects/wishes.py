"""VALUE: what is asked of a response beside its text."""

from __future__ import annotations

import msgspec


class Wishes(msgspec.Struct, frozen=True, omit_defaults=True):
    """It goes on from `previous`, "" for none; `keep` says that it can be asked for again.

    In the `background` nobody waits for it. `instructions` and `metadata` are told back as they
    came.
    """

    previous: str = ""
    keep: bool = True
    background: bool = False
    instructions: str | None = None
    metadata: dict[str, str] = {}
