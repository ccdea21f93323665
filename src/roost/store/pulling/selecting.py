"""SHELL: the models that a folder or repository holds, and putting another behind a name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from roost.errors import fail
from roost.store.models.parts import Variant, variants
from roost.store.models.places import found_in, resolved
from roost.store.pulling.hub import look
from roost.store.pulling.pull import Pulled, PullSettings, Request, Watch, pull, unwatched
from roost.store.pulling.sources import FileSource, PypiSource, parse_source

if TYPE_CHECKING:
    from roost.store.models.registry import ModelStore


def each_of(request: Request, settings: PullSettings) -> tuple[Request, ...]:
    """Ask for every model of a folder or repository in place of one.

    Raises `bad_request` for what holds no several models, and what asking the hub raises.
    """
    return tuple(
        msgspec.structs.replace(request, file=one.name) for one in choices(request.source, settings)
    )


def choices(source: str, settings: PullSettings) -> tuple[Variant, ...]:
    """List the models of a folder or repository, the one that is taken first in front.

    For a file these are the models beside it. Raises `bad_request` for a package, and `not_found`.
    """
    parsed = parse_source(source)
    if isinstance(parsed, FileSource):
        path = resolved(Path(parsed.path))
        return found_in(path if path.is_dir() else path.parent)
    if isinstance(parsed, PypiSource):
        raise fail("bad_request", "What is in a package is seen when it is pulled.")
    settings.require_network()
    listing = look(parsed, settings.hub_endpoint, settings.hub_token, settings.limits)
    if listing is None:
        raise fail("not_found", "The hub has no such repository. Check the name.")
    return variants(listing.files)


def select(
    store: ModelStore,
    request: Request,
    settings: PullSettings,
    watch: Watch = unwatched,
) -> Pulled:
    """Put the `file` of the model's own source, as `request` names it, behind the name `into`.

    `request.source` is what the model's manifest says. Raises what pulling raises; until the other
    file is there and good, the model stays as it is.
    """
    parsed = parse_source(request.source)
    base = str(parsed)
    if isinstance(parsed, FileSource):
        base = f"file:{Path(parsed.path).parent}"
    elif not isinstance(parsed, PypiSource):
        base = str(parsed.beside(""))
    link = not store.owns(request.into)
    return pull(store, msgspec.structs.replace(request, source=base, link=link), settings, watch)
