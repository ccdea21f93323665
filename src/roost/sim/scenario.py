"""VALUE: a scenario: machines, traffic and faults, as written in `scenarios/*.toml`."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.core.allowance import Allowance
from roost.core.engine import Mode
from roost.fleet.conversations.compacting import CompactionSettings
from roost.fleet.conversations.handoffs import HandoffSettings
from roost.fleet.conversations.registry import ConversationSettings
from roost.fleet.line.allowances import AllowanceSettings
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.idempotency import IdempotencySettings
from roost.fleet.streams.relay import RelaySettings
from roost.fleet.streams.stream_log import ReattachSettings
from roost.node.states.session_settings import SessionSettings
from roost.sim.costs import Costs, Distances
from roost.sim.tape import Tape

Span: TypeAlias = tuple[float, float]
Count: TypeAlias = tuple[int, int]
FaultKind = Literal[
    "kill_runtime",
    "kill_node",
    "pause_node",
    "hang_runtime",
    "partition",
    "half_open",
    "cut_link",
    "slow_node",
    "load_failures",
    "hang_loads",
    "drain_node",
    "park_node",
    "crowd",
    "repeat_opens",
    "usurp",
    "late_ticks",
    "pause_gateway",
    "drain_gateway",
    "kill_gateway",
]


class MemorySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Memory of a machine in MB, 0 for what nobody measures, and what a model takes of it.

    Every `hog_every_s` another program takes up to `hog_mb` for `hog_for_s`.
    """

    size_mb: int = 0
    model_mb: int = 0
    hog_mb: int = 0
    hog_every_s: Span = (5.0, 10.0)
    hog_for_s: Span = (5.0, 15.0)


class OrderTraffic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Orders of operators, of every kind alike; `force` is the share of unloads that are forced.

    An unload waits `wait_s` for an idle moment.
    """

    rate_per_s: float = 0.0
    force: float = 0.0
    wait_s: Span = (0.0, 5.0)


class Machines(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` equal machines; `slower` is how many times slower than `costs` they compute.

    Models are for text, but for those of which `modes` says something else.

    Machines of other `weights` have another model under the same name. At most `max_runtimes` are
    resident at once, 0 for any number. With `kept` at 0 or more, their models have one backend,
    which keeps so many. The rest is as in `RoomSettings`, `StaySettings` and `PaceSettings`.
    """

    count: int = 2
    models: tuple[str, ...] = ("m",)
    modes: dict[str, Mode] = {}
    slots: int = 2
    ctx: int = 4096
    max_in_flight: int | None = None
    max_runtimes: int = 0
    kept: int = -1
    min_resident_s: float = 2.0
    turn_s: float = 10.0
    load_stall_s: float = 60.0
    slower: float = 1.0
    weights: str = "w"
    costs: Costs = Costs()
    sessions: SessionSettings = SessionSettings(ram_bytes=0)
    keep_alive_s: float = -1.0
    memory: MemorySpec = MemorySpec()


class Traffic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conversations that begin at random moments, whatever became of the ones before.

    Spans are drawn from evenly. `streamed`, `slow`, `stuck`, `vanish` and `hurry` are shares of
    requests: asked to stream; read slowly; never read on from some point; hung up on in any phase;
    with a deadline of their own. With `prefixes` over 0, each conversation begins with one of so
    many long system prompts of `prefix_words`. `long_answers` is the share of requests that ask for
    ten times the usual answer. One more tenant begins `flood_per_s` conversations of one turn in
    the time `flood_s`. `agent` and `bulk` are shares of conversations of these classes.
    `cancel` is the share of requests that are cancelled by their id, like `vanish`; `replay` of
    those whose answer somebody else is to go on with after a death.
    `keyed` is the share of requests with one of `keys` keys, which all tenants use; each is sent
    again `again` times, after `again_s`, a share of `changed` with another body and of `strangers`
    by another tenant.
    `wander` is the share of streams whose clients lose their connection after each `wander_s` and
    come back after `away_s`.
    `insist` is the share of later turns that require the KV of the turn before.
    `handed` is the share of conversations that are a prompt to be computed ahead: its answer is
    asked for `tries` times, each within `answer_s`, a share of `strangers` by another tenant.
    Of a model that is not for text, vectors or scores of `inputs` texts are asked, once.
    `named` is the share of conversations whose past the gateway keeps; of their turns a share
    `hasty` is followed by the next one before its answer has come.
    """

    rate_per_s: float = 1.2
    turns: Count = (1, 3)
    think_s: Span = (0.3, 2.0)
    words: Count = (5, 150)
    max_tokens: Count = (2, 12)
    streamed: float = 0.7
    slow: float = 0.0
    slow_chars_per_s: float = 60.0
    stuck: float = 0.0
    vanish: float = 0.0
    vanish_s: Span = (0.0, 3.0)
    hurry: float = 0.0
    hurry_s: Span = (0.5, 10.0)
    tenants: int = 3
    prefixes: int = 0
    prefix_words: int = 400
    long_answers: float = 0.0
    flood_per_s: float = 0.0
    flood_s: Span = (0.0, 0.0)
    agent: float = 0.0
    bulk: float = 0.0
    cancel: float = 0.0
    keyed: float = 0.0
    keys: int = 10
    again: Count = (0, 3)
    again_s: Span = (0.0, 10.0)
    changed: float = 0.0
    strangers: float = 0.0
    wander: float = 0.0
    wander_s: Span = (0.0, 3.0)
    away_s: Span = (0.0, 3.0)
    replay: float = 0.0
    insist: float = 0.0
    handed: float = 0.0
    tries: Count = (1, 2)
    answer_s: Span = (0.0, 4.0)
    inputs: Count = (1, 12)
    named: float = 0.0
    hasty: float = 0.0
    hasty_s: Span = (0.0, 1.0)


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something goes wrong `times` times, each at a moment in `at_s`, for a time in `for_s`."""

    kind: FaultKind
    at_s: Span
    for_s: Span = (1.0, 1.0)
    times: int = 1
    factor: float = 10.0


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that a seed is added to. `claim` says in a sentence what it is there to show.

    Every tenant has a key with this `allowance`. With a `tape` requests come when and as it says,
    and of `traffic` only the manners count.
    """

    claim: str
    duration_s: float = 25.0
    machines: tuple[Machines, ...] = (Machines(),)
    traffic: Traffic = Traffic()
    orders: OrderTraffic = OrderTraffic()
    faults: tuple[Fault, ...] = ()
    network: Distances = Distances()
    fleet: FleetSettings = FleetSettings()
    relay: RelaySettings = RelaySettings()
    idempotency: IdempotencySettings = IdempotencySettings()
    reattach: ReattachSettings = ReattachSettings()
    conversations: ConversationSettings = ConversationSettings()
    compaction: CompactionSettings = CompactionSettings(summariser="off")
    allowance: Allowance = Allowance()
    allowances: AllowanceSettings = AllowanceSettings()
    handoffs: HandoffSettings = HandoffSettings()
    settle_s: float = 150.0
    tape: Tape | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that any machine has, by name."""
        return tuple(sorted({model for one in self.machines for model in one.models}))

    def modes(self, model: str) -> tuple[Mode, ...]:
        """What this model is for, on one machine or another."""
        having = (one.modes for one in self.machines if model in one.models)
        return tuple(sorted({modes.get(model, "generate") for modes in having}))
