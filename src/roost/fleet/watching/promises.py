"""DECIDER: what each node promises for each of its models, in six words and with a reason.

    supported            it works
    experimental         it was tried in this very runtime and works; a request has to allow it
    unavailable          it could work, and does not now, or nobody can tell
    unsupported          it cannot work
    externally_managed   it works, and is somebody else's to look after
    metadata_only        known by somebody's word alone

They are never reduced to yes and no: whoever acts on one has to know which kind of no it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from roost.core.about import BackendAbout, NodeAbout, RuntimeAbout
from roost.core.ids import ModelId, NodeId
from roost.core.model import Capabilities
from roost.core.snapshots import LinkState, ModelOffer, RuntimeView
from roost.fleet.watching.views import NodeView

PromiseStatus = Literal[
    "supported",
    "unsupported",
    "unavailable",
    "experimental",
    "externally_managed",
    "metadata_only",
]
Verdict = tuple[PromiseStatus, str]

GENERATION = tuple(
    f"generation.{name}" for name in Capabilities.__struct_fields__ if name != "state"
)
"""Promises about answers, each of them a capability of a backend."""

STATES = (
    *("runtime.state.persistence", "runtime.state.restore"),
    *("runtime.state.tier.disk", "runtime.state.tier.ram"),
)
"""Promises that rest on a trial at the start of each runtime."""

_FOREIGN = frozenset({"streaming", "concurrent_streams", "cancel", "sessions"})
"""What a worker that is no node of ours is known to do."""

_NOT_SAID = "its node does not say; it may be of an older version"


class Promise(msgspec.Struct, frozen=True):
    """One promise: its name, how it stands and why."""

    id: str
    status: PromiseStatus
    reason: str


class ModelPromises(msgspec.Struct, frozen=True):
    """What a node promises for one model, and which backend would keep it; "" for unknown."""

    model: ModelId
    backend: str
    promises: tuple[Promise, ...]


class NodePromises(msgspec.Struct, frozen=True):
    """What a node promises as a whole, for each model, and what there is of each backend."""

    node: NodeId
    state: LinkState
    promises: tuple[Promise, ...]
    models: tuple[ModelPromises, ...]
    backends: tuple[BackendAbout, ...] | None


def promises_of(node: NodeView) -> NodePromises:
    """Judge all promises of a linked node by its last report."""
    about = node.about
    return NodePromises(
        node.id,
        node.state,
        tuple(Promise(name, *verdict) for name, verdict in _of_node(node)),
        tuple(_of_model(node, offer) for offer in node.models),
        about.backends if about is not None else None,
    )


def is_foreign(node: NodeView) -> bool:
    """Whether this is a worker that speaks another protocol, and manages its model itself."""
    return any(offer.serves != "all" for offer in node.models)


def _of_node(node: NodeView) -> Iterator[tuple[str, Verdict]]:
    yield "runtime.memory.telemetry.host", _host(node.about)
    yield "runtime.memory.telemetry.accelerator", _accelerator(node.about)
    managed = _managed(node)
    yield "runtime.memory.reservations", _reservations(node, managed)
    yield "runtime.placement", managed
    for name in ("runtime.pd.prefill", "runtime.pd.decode", "runtime.pd.handoff"):
        yield name, _ahead(node)
    yield "runtime.experts.residency", ("unsupported", "no backend here keeps experts apart")
    yield "api.chat.omlx_options", ("unsupported", "what only oMLX understands is not passed on")


def _ahead(node: NodeView) -> Verdict:
    """Say whether a prompt can be computed before anybody wants its answer."""
    if is_foreign(node):
        return "unsupported", "a worker of system 1 takes turns of a chat alone"
    return "supported", "by /roost/v1/prefill; what has gone until its decode is computed again"


def _managed(node: NodeView) -> Verdict:
    """Say who loads and evicts the models of a node."""
    if is_foreign(node):
        return "externally_managed", "this worker has loaded its model itself"
    if not node.takes_wants:
        return "unavailable", _NOT_SAID
    return "supported", "the node loads and evicts models by itself"


def _residency(node: NodeView, backend: BackendAbout | None) -> Verdict:
    if backend is not None and backend.external:
        return "externally_managed", "the server that is asked has its model, and nobody here knows"
    if backend is not None and backend.kept == 0:
        return "unsupported", f"{backend.name} keeps no model there that nobody uses"
    return _managed(node)


def _host(about: NodeAbout | None) -> Verdict:
    if about is None:
        return "unavailable", _NOT_SAID
    if about.memory.room_bytes is None or about.memory.capacity_bytes is None:
        return "unavailable", "its system does not tell how much memory is free"
    return "supported", "read from its system every few seconds"


def _accelerator(about: NodeAbout | None) -> Verdict:
    if about is None:
        return "unavailable", _NOT_SAID
    if not about.devices:
        return "unavailable", "no accelerator is visible there"
    if any(one.total_bytes is None or one.free_bytes is None for one in about.devices):
        return "metadata_only", "accelerators are listed there, but their memory is not told"
    return "supported", "asked of the vendor's tool once a minute"


def _reservations(node: NodeView, managed: Verdict) -> Verdict:
    if managed[0] != "supported":
        return managed
    measured = node.memory is not None and any(
        one.capacity_bytes is not None for one in node.memory.devices
    )
    if not measured and not node.max_runtimes and not node.max_runtime_bytes:
        return "unavailable", "nobody measures its memory, and it has no limit of its own"
    return "supported", "a load takes its place before it begins"


def _of_model(node: NodeView, offer: ModelOffer) -> ModelPromises:
    backend = _backend(node.about, offer.backend)
    runtime = next((one for one in node.runtimes if one.model == offer.model), None)
    found = [
        Promise(name, *_generation(name.removeprefix("generation."), node, offer, backend))
        for name in GENERATION
    ]
    found.append(Promise("runtime.model_residency", *_residency(node, backend)))
    found += [Promise(name, *verdict) for name, verdict in _states(node, backend, runtime)]
    return ModelPromises(offer.model, offer.backend, tuple(found))


def _backend(about: NodeAbout | None, name: str) -> BackendAbout | None:
    return next((one for one in about.backends if one.name == name), None) if about else None


def _generation(
    name: str, node: NodeView, offer: ModelOffer, backend: BackendAbout | None
) -> Verdict:
    if offer.serves != "all":
        if name in _FOREIGN:
            return "metadata_only", "known from the heartbeats of this worker alone"
        return "unsupported", "this worker serves turns of named conversations alone"
    if backend is None:
        return "unavailable", _NOT_SAID if offer.backend else "no backend there runs the model"
    if name == "tools" and name not in backend.claims and "chat" in backend.claims:
        # Calls are read out of any text, but another server gets no tools from here.
        if backend.external:
            return "unsupported", f"tools are not passed on by {backend.name}"
        return _chat(node, offer) or ("supported", "calls are read from what the model writes")
    if name not in backend.claims:
        return "unsupported", f"{backend.name} does not do that"
    missing = _chat(node, offer) if name == "chat" else _now(node, offer)
    return missing or ("supported", f"{backend.name} does that")


def _chat(node: NodeView, offer: ModelOffer) -> Verdict | None:
    """Say what keeps a model from being talked with; None where nothing does."""
    if not offer.has_chat:
        return "unsupported", "the model has no chat template"
    return _now(node, offer)


def _now(node: NodeView, offer: ModelOffer) -> Verdict | None:
    """Say what keeps a node from it at the moment; None where nothing does."""
    if node.state != "alive":
        return "unavailable", f"its node is {node.state}: nothing is heard of it"
    if node.draining:
        return "unavailable", "its node takes no new work"
    if not offer.usable:
        return "unavailable", "its last load failed"
    return None


def _states(
    node: NodeView, backend: BackendAbout | None, runtime: RuntimeView | None
) -> Iterator[tuple[str, Verdict]]:
    claims = backend.claims if backend is not None else ()
    known: Verdict = ("unsupported", f"{backend.name} does not do that" if backend else "")
    if is_foreign(node):
        known = ("externally_managed", "this worker keeps its own KV")
    elif backend is None:
        known = ("unavailable", _NOT_SAID)
    elif backend.external:
        known = ("externally_managed", "the server that is asked keeps its own KV")
    prefixes: Verdict = ("supported", "a slot keeps what it has computed")
    if backend is not None and backend.external:
        prefixes = ("metadata_only", "what its server reuses is known by its word alone")
    elif "prefix_cache" not in claims:
        prefixes = known
    yield "runtime.state.prefix_cache", prefixes
    tried = known if "state" not in claims else _tried(node.about, runtime)
    for name in STATES:
        yield name, tried
    yield "runtime.state.restore.cross_restart", _lasting(tried, node.about)
    yield "runtime.state.tier.vram", _vram(backend, known)


def _tried(about: NodeAbout | None, runtime: RuntimeView | None) -> Verdict:
    if runtime is None or runtime.state != "ready":
        return "unavailable", "it is tried when its runtime starts"
    figures = _figures(about, runtime)
    if figures is None or figures.states is None:
        return "unavailable", _NOT_SAID
    if not figures.states:
        return "unavailable", "it is turned off, or did not work when its runtime started"
    return "experimental", "it worked when it was tried in this runtime"


def _lasting(tried: Verdict, about: NodeAbout | None) -> Verdict:
    if tried[0] != "experimental":
        return tried
    if about is None or about.persistence != "disk":
        return "unavailable", "what slots held ends with its node: see sessions.persistence"
    return "experimental", "it is checked, and read back by a runtime that is equal in everything"


def _vram(backend: BackendAbout | None, known: Verdict) -> Verdict:
    if backend is None or backend.external:
        return known
    if backend.accelerator == "cpu":
        return "unsupported", "its slots are in main memory"
    return "supported", f"its slots are in the memory of {backend.accelerator}"


def _figures(about: NodeAbout | None, runtime: RuntimeView) -> RuntimeAbout | None:
    runtimes = about.runtimes if about is not None else ()
    return next((one for one in runtimes if one.runtime == runtime.runtime), None)
