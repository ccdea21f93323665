"""VALUE: everything the node's agent can ask for. `node.perform` has one function for each."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.backends.base import Prepared, SavedState, SlotUse
from roost.core.ids import ModelId, RequestId, RuntimeId, SessionId, StreamId, TenantId
from roost.core.request import GenerateRequest
from roost.core.snapshots import Pressure
from roost.wire.messages import FromNode


class StreamKey(msgspec.Struct, frozen=True):
    """A stream's name on this node: which link it came in by, and its number there."""

    link: int
    stream: StreamId


class Load(msgspec.Struct, frozen=True):
    """Start a runtime of this model under this name; `on_loaded` or `on_load_failed` answers."""

    model: ModelId
    runtime: RuntimeId


class Look(msgspec.Struct, frozen=True):
    """See whether this model is as it was installed, before others go for it; `on_looked`."""

    model: ModelId


class Unload(msgspec.Struct, frozen=True):
    """Stop this runtime; answered by `on_runtime_gone`."""

    runtime: RuntimeId


class Weigh(msgspec.Struct, frozen=True):
    """Measure the machine and its runtimes soon; answered by `on_weighed` with this number."""

    number: int


class Calibrate(msgspec.Struct, frozen=True):
    """Write down what this runtime takes, for whoever loads its like; nothing answers."""

    runtime: RuntimeId
    measured_bytes: int


class Pressed(msgspec.Struct, frozen=True):
    """Tell people that a memory is at another level; `share` of it has gone."""

    device: str
    pressure: Pressure
    share: float


class Prepare(msgspec.Struct, frozen=True):
    """Render and tokenise; answered by `on_prepared` or `on_prepare_failed`."""

    key: StreamKey
    runtime: RuntimeId
    request: GenerateRequest
    tenant: TenantId


class Run(msgspec.Struct, frozen=True):
    """Open the backend's stream on this slot; answered by `on_event`s and one `on_closed`."""

    key: StreamKey
    request_id: RequestId
    runtime: RuntimeId
    prepared: Prepared
    use: SlotUse


class Stop(msgspec.Struct, frozen=True):
    """Leave whatever this stream is doing (preparing or running); `on_closed` still follows."""

    key: StreamKey


class Pause(msgspec.Struct, frozen=True):
    """Stop (`paused`) or go on reading the backend's stream: its outbox is full, or has room."""

    key: StreamKey
    paused: bool


class Send(msgspec.Struct, frozen=True):
    """Send this message on this link."""

    link: int
    message: FromNode


class Park(msgspec.Struct, frozen=True):
    """Write what this idle slot holds to a file in memory; answered by `on_parked`.

    `shared` says that the slot goes on with it, and that others are filled from the file.
    """

    runtime: RuntimeId
    slot: int
    session: SessionId
    shared: bool = False


class Restore(msgspec.Struct, frozen=True):
    """Fill this idle slot from a session's file, in memory or on disk; answered by `on_restored`.

    `saved`, `known` (token ids as `slots.pack` writes them) and `kin` are what it has to be of.
    `copies` says that the file stays, for its own conversation or for other slots.
    """

    runtime: RuntimeId
    slot: int
    session: SessionId
    tier: Literal["ram", "disk"]
    saved: SavedState
    known: bytes
    kin: str = ""
    copies: bool = False


class Demote(msgspec.Struct, frozen=True):
    """Copy a session's file from memory to disk; answered by `on_demoted`.

    What wrote it (`kin`) may be gone, and is on disk beside it, as is whose it is.
    """

    session: SessionId
    saved: SavedState
    known: bytes
    tenant: TenantId
    kin: str = ""
    pinned: bool = False


class Promote(msgspec.Struct, frozen=True):
    """Copy a session's file from disk to memory, every byte checked; answered by `on_promoted`."""

    session: SessionId
    saved: SavedState
    known: bytes
    kin: str


class Mark(msgspec.Struct, frozen=True):
    """Say on disk whether a session is pinned; nothing answers."""

    session: SessionId
    pinned: bool


class Forget(msgspec.Struct, frozen=True):
    """Remove a session's files of this kind, as far as there are any; nothing answers."""

    runtime: RuntimeId
    session: SessionId
    tier: Literal["ram", "disk", "both"] = "both"


Effect: TypeAlias = (
    Load
    | Look
    | Unload
    | Weigh
    | Calibrate
    | Pressed
    | Prepare
    | Run
    | Stop
    | Pause
    | Send
    | Park
    | Restore
    | Demote
    | Promote
    | Mark
    | Forget
)
