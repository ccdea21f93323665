"""WIRING: the join token of a node: where it comes from, and what it says of the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.config.read import of_user
from roost.errors import fail
from roost.store.credentials.secrets import unpinned

if TYPE_CHECKING:
    from roost.config import Settings

TOKEN_CHARS_MAX = 4096


def join_token(settings: Settings) -> str:
    """Return the token to join with; raises `bad_request` where there is not exactly one."""
    if bool(settings.token) == bool(settings.token_file):
        given = "two are" if settings.token else "none is"
        message = f"A node needs one of --token-file, ROOST_TOKEN and --token; {given} given."
        raise fail("bad_request", message)
    if settings.token:
        return settings.token
    try:
        with of_user(settings.token_file).open(encoding="utf-8") as file:
            token = file.read(TOKEN_CHARS_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = type(error).__name__
        raise fail("bad_request", f"--token-file: the file cannot be read ({why}).") from None
    if not token:
        raise fail("bad_request", "--token-file: the file is empty; `roost token` makes a token.")
    return token


def split_token(token: str, flag: str = "The join token") -> tuple[str, str]:
    """Return what is shown to the gateway, and the fingerprint by which it is known, or "".

    Raises `bad_request` for a token that is damaged.
    """
    try:
        return unpinned(token)
    except ValueError:
        message = f"{flag} is damaged, perhaps cut short: take all of what `roost token` printed."
        raise fail("bad_request", message) from None
