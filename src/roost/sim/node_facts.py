"""VALUE: what happened on nodes: streams on engines, slots and files, loads, orders, troubles.

Facts are of work that was done there, as the simulated engines and files have it.
"""

from __future__ import annotations

from dataclasses import dataclass

from roost.core.fence import Fence
from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId, SessionId


@dataclass(slots=True)
class Run:
    """One stream on an engine, from its slot to the slot's return.

    Its `prompt` was ready for a slot at `ready_s`; `cached` tokens of it were found there, and it
    was computed whole at `computed_s`.
    """

    request: RequestId
    node: NodeId
    slot: int
    began_s: float
    ended_s: float | None = None
    life: str = ""
    runtime: str = ""
    reuse: bool = False
    prompt: tuple[int, ...] = ()
    ready_s: float = 0.0
    cached: int = 0
    computed_s: float | None = None


@dataclass(slots=True)
class Move:
    """A slot's content written (`park`, `copy`), read (`restore`, `lend`), or files removed.

    What is lent stays where it is. `life` is one life of a node's process; `slot` is -1 for what
    touches none.
    """

    kind: str
    life: str
    runtime: RuntimeId
    slot: int
    session: SessionId
    began_s: float
    ended_s: float | None = None
    ok: bool = False


@dataclass(slots=True)
class Kept:
    """The most that one life of a node had in files, what it might have, and what it had at rest.

    `told` and `at_rest` are bytes in memory and on disk, as the node says and as they are; None for
    a life that is over.
    """

    life: str
    ram_bytes: int = 0
    disk_bytes: int = 0
    files: int = 0
    ram_bytes_max: int = 0
    disk_bytes_max: int = 0
    files_max: int = 0
    tokens_min: int = 0
    shared_tokens_min: int = 0
    shared_wait_s: float = 0.0
    told: tuple[int, int] | None = None
    at_rest: tuple[int, int] | None = None


@dataclass(slots=True)
class Ownership:
    """One stream on an engine, whichever gateway asked for it, under a key and an epoch."""

    node: NodeId
    fence: Fence
    began_s: float
    ended_s: float | None = None


@dataclass(slots=True)
class Wish:
    """A node was asked to load a model: who waited for it, and how many loads were under way.

    `places` counts nodes that run it and had a place left; `roomy` says that the node had room for
    one more without driving anything out.
    """

    at_s: float
    node: NodeId
    model: ModelId
    waiting: int
    under_way: int
    places: int = 0
    roomy: bool = False


@dataclass(slots=True)
class Residence:
    """One runtime on a node, from the start of its load until it was told to go, or died.

    `together` counts the runtimes there at its start, itself included, of `room`; `stays_s` is how
    long it had to stay; `busy` streams were on it when it was told to go, and `preparing` ones on
    their way. An operator had `ordered` or `forced` that, or it was `pinned`. Of its memory so many
    MB were `taken` when its load began, itself included, of those that `may` be, 0 for any.
    """

    node: NodeId
    model: ModelId
    began_s: float
    together: int
    room: int
    stays_s: float
    ready_s: float | None = None
    told_s: float | None = None
    busy: int = 0
    ordered: bool = False
    forced: bool = False
    pinned: bool = False
    preparing: int = 0
    taken_mb: float = 0.0
    may_mb: float = 0.0


@dataclass(slots=True)
class Ordered:
    """An order to a node, and what came of it; `runtime` is what the model had there then.

    `there` is whether that one, or after a load any, was really there at its end. `life` is that of
    the node which got it, 0 for none.
    """

    node: NodeId
    model: ModelId
    what: str
    force: bool
    given_s: float
    wait_s: float
    runtime: RuntimeId | None = None
    life: int = 0
    ended_s: float | None = None
    done: bool = False
    reason: str = ""
    there: bool = False


@dataclass(slots=True)
class Weighing:
    """A memory was measured, because the node had `asked` for it or not; `passes` made so far."""

    node: NodeId
    life: int
    asked: bool
    share: float
    passes: int = 0


@dataclass(slots=True)
class Trouble:
    """A span of time in which a node was not itself; `until_s` None means until the end."""

    node: NodeId
    kind: str
    since_s: float
    until_s: float | None = None


@dataclass(slots=True)
class Drain:
    """A node that an operator drained, until it was given back at `until_s`.

    `told_s` is when it was told that nobody comes back, with `left_when_told` idle conversations
    there. At the end it had so many `sessions` in slots and files and `busy` streams, and so many
    idle conversations were `left`.
    """

    node: NodeId
    since_s: float
    told_s: float | None = None
    left_when_told: int = 0
    until_s: float | None = None
    sessions: int = 0
    busy: int = 0
    left: int = 0


@dataclass(slots=True)
class Cells:
    """One slot at rest: the tokens its node reports, and those that its engine has."""

    node: NodeId
    runtime: str
    slot: int
    told: int
    real: int
    ctx: int
