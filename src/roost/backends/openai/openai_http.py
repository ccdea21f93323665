"""SHELL: the backend `openai_http`: a model that somebody else's server runs.

Any server of the OpenAI dialect: vLLM, llama.cpp, another roost, a provider. It is asked and never
owned: nothing here starts it, ends it, or knows how much it can take.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from roost.backends.answering import Answering
from roost.backends.base import Prepared, SlotUse, StartSettings, Telemetry
from roost.backends.card_file import read_installed, read_key
from roost.backends.http1.exchange import Lost, Place, call
from roost.backends.openai.stream import Served, Stream, body_of
from roost.core.card import Remote
from roost.core.events import StreamEvent
from roost.core.ids import TenantId
from roost.core.model import Capabilities, Manifest, RuntimeKey
from roost.core.request import GenerateRequest
from roost.errors import fail

CAPABILITIES = Capabilities(
    chat=True, completion=True, streaming=True, concurrent_streams=True, cancel=True
)
"""What the dialect itself promises; what single servers can do beyond is not known."""

PROBE_TIMEOUT_S = 10.0


class _Listed(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: tuple[_Listed, ...] = ()


class OpenaiHttp:
    """Talks to servers, as the cards of their models say."""

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        return "openai_http"

    @property
    def capabilities(self) -> Capabilities:
        """What every server of the dialect does."""
        return CAPABILITIES

    async def start(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> RemoteRuntime:
        """Look whether the server is there and has the model; see `base.Backend.start`."""
        on_progress(0.0)
        card = await asyncio.to_thread(read_installed, manifest.path, Remote, self.name)
        place = await asyncio.to_thread(_place, card)
        model = await found_model(place, card.model, manifest.id)
        on_progress(1.0)
        return RemoteRuntime(key, Served(place, model, card.ctx))


class RemoteRuntime:
    """A model on a server, made by `OpenaiHttp.start`."""

    def __init__(self, key: RuntimeKey, served: Served) -> None:
        self._key = key
        self._served = served
        self._answering = Answering[Stream](key.options.slots, served.ctx, CAPABILITIES)

    @property
    def key(self) -> RuntimeKey:
        """The key it was started for."""
        return self._key

    @property
    def died(self) -> asyncio.Event:
        """Set once it was told to end."""
        return self._answering.died

    @property
    def states(self) -> None:
        """What a server holds is its own."""
        return None

    async def prepare(self, request: GenerateRequest, owner: TenantId | None = None) -> Prepared:
        """Check and translate; the server counts, so there are no tokens here.

        See `base.Runtime.prepare`; `unsupported` as well for what the dialect has no words for.
        """
        self._answering.check(request)
        body_of(self._served.model, request, self._served.ctx)
        return self._answering.prepared(request)

    @asynccontextmanager
    async def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Ask the server; see `base.Runtime.open`. A slot in use is the caller's defect."""
        self._answering.check_place(prepared, use)
        stream = Stream(self._served, self.died, prepared, use.slot)
        async with self._answering.run(use.slot, stream) as events:
            yield events

    async def telemetry(self) -> Telemetry:
        """Streams that run; all else is the server's."""
        return Telemetry(live=len(self._answering.streams))

    async def stop(self, grace_s: float) -> None:
        """Ask nothing more; the server is not ours to end. Idempotent."""
        self.end()

    def end(self) -> None:
        """Ask nothing more, and end what has been asked."""
        self._answering.end()


def _place(card: Remote) -> Place:
    """Say where the server is; raises `load_failed` for files that cannot be used."""
    url = urlsplit(card.url)
    tls = None
    if url.scheme == "https":
        try:
            tls = ssl.create_default_context(cafile=card.ca_file or None)
        except OSError:
            raise fail("load_failed", "The card's ca_file cannot be read.") from None
    port = url.port or (443 if tls else 80)
    base = url.path.rstrip("/").removesuffix("/v1")
    return Place("", port, read_key(card), url.hostname or "", tls, base)


async def found_model(place: Place, wanted: str, own: str) -> str:
    """Choose a server's model: the one wanted, one called as here, the only one.

    Raises `load_failed`.
    """
    try:
        status, data = await call(place, "GET", "/v1/models", timeout_s=PROBE_TIMEOUT_S)
    except Lost as lost:
        raise fail("load_failed", f"The server cannot be used: {lost}.") from None
    if status in {401, 403}:
        raise fail("load_failed", "The server does not take the key. See the card's key_file.")
    if status != 200:
        raise fail("load_failed", f"The server does not list its models (status {status}).")
    try:
        names = [one.id for one in msgspec.json.decode(data, type=_Models).data]
    except msgspec.DecodeError:
        raise fail("load_failed", "The server does not list its models as OpenAI does.") from None
    for name in (wanted, own):
        if name in names:
            return name
    if wanted or len(names) != 1:
        missing = wanted or own
        raise fail("load_failed", f"The server has {len(names)} models, and none is {missing!r}.")
    return names[0]
