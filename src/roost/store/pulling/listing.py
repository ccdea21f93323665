"""DECIDER: what a hub tells of a repository, and whether its licence asks for agreement."""

from __future__ import annotations

import re

import msgspec

from roost.errors import RoostError, fail
from roost.store.pulling.report import MAX_LICENCE_CHARACTERS
from roost.store.pulling.sources import is_hub_file
from roost.text.screen import in_one_line

FILES_MAX = 100_000
ACCEPT = "accept_licence"
"""What a failure names where agreement is all that is missing."""

_REVISION = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# Licences whose terms bind whoever uses the model, and begin by saying so.
_TERMS = re.compile(r"\b(gemma|llama[\s-]*\d)", re.IGNORECASE)


class Listing(msgspec.Struct, frozen=True):
    """A repository: its files, the `revision` they are of, its licence, and if that is `gated`."""

    files: tuple[str, ...]
    revision: str
    licence: str
    gated: bool


class _File(msgspec.Struct, frozen=True):
    rfilename: str


class _Card(msgspec.Struct, frozen=True):
    license: str | list[str] = ""
    license_name: str | None = None


class _Repository(msgspec.Struct, frozen=True):
    sha: str | None = None
    gated: bool | str = False
    siblings: tuple[_File, ...] = ()
    cardData: _Card | None = None  # noqa: N815 - the hub's name for it


def read_listing(raw: bytes) -> Listing:
    """Read the JSON of a hub about a repository; raises `upstream_error`."""
    try:
        told = msgspec.json.decode(raw, type=_Repository)
    except msgspec.MsgspecError as error:
        raise fail("upstream_error", "The hub says nothing that can be read. Try later.") from error
    if len(told.siblings) > FILES_MAX:
        raise fail("upstream_error", "The repository has more files than any real one: refused.")
    revision = told.sha or ""
    return Listing(
        files=tuple(filter(is_hub_file, (file.rfilename for file in told.siblings))),
        revision=revision if _REVISION.fullmatch(revision) else "main",
        licence=_licence(told.cardData or _Card()),
        gated=told.gated not in (False, ""),
    )


def asks_agreement(licence: str, *, gated: bool = False) -> bool:
    """Whether nobody may have the model without agreeing: its source says so, or its terms do."""
    return gated or _TERMS.search(licence) is not None


def not_agreed(licence: str, page: str) -> RoostError:
    """Build the failure of a pull whose licence nobody has agreed to; `page` is where it stands."""
    return fail(
        "bad_request",
        f"The licence of this model ({in_one_line(licence) or 'its own'}) asks for your agreement."
        f" Read it at {in_one_line(page)}, then run the same command with --accept-licence.",
        param=ACCEPT,
    )


def _licence(card: _Card) -> str:
    stated = card.license if isinstance(card.license, str) else ", ".join(card.license)
    if stated in ("", "other") and card.license_name:
        stated = card.license_name
    return in_one_line(stated)[:MAX_LICENCE_CHARACTERS]
