"""SHELL: the card of a model that is about to be started, and the key that it names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar

from roost.core.card import CARD_MAX_BYTES, Card, Remote, read_card
from roost.errors import RoostError, fail

KEY_MAX_BYTES = 4096
_KEY = re.compile(r"[!-~]+")


ACard = TypeVar("ACard", bound=Card)


def read_installed(path: str, kind: type[ACard], backend: str) -> ACard:
    """Read a card again, which may have changed since; raises `load_failed`, also for another's."""
    try:
        with Path(path).open("rb") as file:
            card = read_card(file.read(CARD_MAX_BYTES))
    except (OSError, RoostError):
        raise fail("load_failed", "The model's card cannot be read.") from None
    if not isinstance(card, kind):
        raise fail("load_failed", f"The model's card is for another backend than `{backend}`.")
    return card


def read_key(card: Remote) -> str:
    """Read the key of a server, "" for none; raises `load_failed`."""
    if not card.key_file:
        return ""
    try:
        with Path(card.key_file).open("rb") as file:
            key = file.read(KEY_MAX_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise fail("load_failed", "The card's key_file cannot be read.") from None
    if not _KEY.fullmatch(key):
        raise fail("load_failed", "The card's key_file holds no key.")
    return key
