"""WIRING: the catalogue of mutants: what is broken, where it shows, which claim has to find it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from roost.sim.mutants import allowances as allowance_defects
from roost.sim.mutants import aside as aside_defects
from roost.sim.mutants import fittings, forgetful, losses
from roost.sim.mutants import handoffs as handoff_defects
from roost.sim.mutants import homes as home_defects
from roost.sim.mutants import leaving as leave_defects
from roost.sim.mutants import registry as mutants
from roost.sim.mutants import room as room_defects
from roost.sim.mutants import sharing as share_defects
from roost.sim.mutants import shortening as short_defects
from roost.sim.mutants import staying as stay_defects
from roost.sim.mutants import talks as talk_defects
from roost.sim.mutants import various as defects
from roost.sim.mutants import vectors as vector_defects
from roost.sim.mutants.fittings import Case
from roost.sim.play import Parts, play
from roost.sim.scenario import Scenario


class Mutant(msgspec.Struct, frozen=True):
    """One defect: `scenario` shows it with `seed`, and `checker` is the claim that it breaks."""

    name: str
    parts: Parts
    scenario: str
    checker: str
    seed: int


_CASES: tuple[Case, ...] = (
    (
        "lease kept on cancel",
        fittings.coordinator(mutants.KeepsLeasesOfTheGone),
        "vanishing_clients",
        "leases_return",
    ),
    (
        "lease given back twice over",
        fittings.coordinator(mutants.ReleasesBeforeTheNode),
        "cold_start",
        "places_within_limits",
    ),
    (
        "leases not counted",
        fittings.coordinator(mutants.OverlooksLeases),
        "deadlines",
        "places_within_limits",
    ),
    (
        "retry after a byte",
        fittings.coordinator(mutants.RetriesAfterAByte),
        "node_killed",
        "no_machine_raises",
    ),
    (
        "retry after a byte, unnoticed by the relay",
        mutants.retries_after_a_byte(),
        "node_killed",
        "no_retry_after_first_byte",
    ),
    (
        "late events believed",
        fittings.coordinator(mutants.BelievesLateEvents),
        "late_news",
        "machines_agree",
    ),
    (
        "late events shown to the client",
        fittings.front(mutants.LetsLateEventsThrough),
        "late_news",
        "no_machine_raises",
    ),
    (
        "stale nodes waited for",
        fittings.coordinator(mutants.NeverGivesUpOnSilence),
        "partition",
        "loss_is_noticed",
    ),
    (
        "work for draining nodes",
        fittings.coordinator(mutants.OverlooksDraining),
        "rolling_restart",
        "no_work_for_draining",
    ),
    (
        "work for silent nodes",
        fittings.settings(link_suspect_s=4.9),
        "late_news",
        "no_work_into_silence",
    ),
    (
        "retry in place",
        fittings.coordinator(mutants.RetriesInPlace),
        "runtime_killed",
        "retries_go_elsewhere",
    ),
    (
        "no retry budget",
        fittings.settings(retry_floor=1000, retry_attempts=1000),
        "load_failures",
        "retry_budget",
    ),
    (
        "refusals without hint",
        fittings.coordinator(mutants.AnswersWithoutHint),
        "overload",
        "refusals_say_when",
    ),
    (
        "lost requests forgotten",
        fittings.coordinator(mutants.ForgetsTheLost),
        "node_killed",
        "one_ending",
    ),
    (
        "cancel not sent",
        fittings.coordinator(mutants.NeverWithdraws),
        "cold_start",
        "cancelled_work_stops",
    ),
    (
        "free places not offered",
        fittings.coordinator(mutants.NeverLooksAgain),
        "cold_start",
        "places_are_used",
    ),
    ("ties by order", mutants.tie_by_order(), "quiet", "ties_are_shared"),
    ("unbounded queue", fittings.settings(queue_length=10**6), "overload", "queue_bounded"),
    ("unbounded wait", fittings.settings(queue_wait_s=1e6), "overload", "queue_bounded"),
    ("merged text lost", fittings.relay(mutants.LosesMerged), "calm", "tokens_contiguous"),
    ("text sent twice", fittings.relay(mutants.SendsTwice), "calm", "tokens_contiguous"),
    (
        "cut stream ended cleanly",
        fittings.relay(mutants.EndsCleanly),
        "deadlines",
        "no_silent_truncation",
    ),
    ("stuck writer waited for", fittings.relay(mutants.WaitsForEver), "slow_clients", "one_ending"),
    ("credit never renewed", fittings.relay(mutants.GrantsNothing), "slow_clients", "one_ending"),
    (
        "credit beyond the buffer",
        fittings.relay(mutants.GrantsTooMuch),
        "slow_clients",
        "machines_agree",
    ),
    (
        "disconnect not reported",
        fittings.relay(mutants.HangsUpSilently),
        "vanishing_clients",
        "no_machine_raises",
    ),
    (
        "cancel ignored by the node",
        fittings.agent(mutants.IgnoresCancel),
        "cold_start",
        "cancelled_work_stops",
    ),
    (
        "lost link ignored by the node",
        fittings.agent(mutants.IgnoresLostLinks),
        "mixed",
        "slots_return",
    ),
    ("released twice by the node", fittings.agent(mutants.ReleasesTwice), "calm", "machines_agree"),
    (
        "limit ignored by the node",
        fittings.agent(mutants.OverlooksItsLimit),
        "crowded",
        "machines_agree",
    ),
    ("fencing not checked", fittings.agent(mutants.KnowsNoFences), "fenced", "one_owner"),
    (
        "epoch not raised",
        fittings.coordinator(mutants.NeverRaisesTheEpoch),
        "runtime_killed",
        "one_owner",
    ),
    (
        "all replays at once",
        fittings.settings(redispatch_per_node=99),
        "replayed",
        "survivors_are_spared",
    ),
    ("fleet cap ignored", fittings.settings(max_decodes=0), "capped", "caps_hold"),
    ("node cap ignored", fittings.settings(max_decodes_per_node=0), "capped", "caps_hold"),
    ("no quarantine", fittings.settings(quarantine_kills=99), "poison", "no_third_victim"),
    (
        "all the bereaved at once",
        fittings.settings(redispatch_per_node=99),
        "bereaved",
        "survivors_are_spared",
    ),
    ("classes starve", fittings.settings(class_one_in=10**6), "classes", "classes_take_turns"),
    *defects.CASES,
    *forgetful.CASES,
    *losses.CASES,
    *talk_defects.CASES,
    *aside_defects.CASES,
    *home_defects.CASES,
    *leave_defects.CASES,
    *room_defects.CASES,
    *share_defects.CASES,
    *short_defects.CASES,
    *stay_defects.CASES,
    *allowance_defects.CASES,
    *vector_defects.CASES,
    *handoff_defects.CASES,
)

SEEDS = {
    "failure zeroes the counters": 2,
    "late events shown to the client": 2,
    "retry in place": 4,
    "lost link ignored by the node": 3,
    "all the bereaved at once": 2,
    "classes not known": 2,
    "board blind to leases": 2,
    "cut answers forgotten": 4,
    "replay told before it is one": 7,
    "what is required computed anew": 5,
    "nobody moved off a node": 4,
    "pins forgotten at a restart": 6,
    "compacted without the lock": 10,
    "failed summaries fatal": 3,
    "answers not counted": 4,
    "copies removed too soon": 2,
    "first requests overlooked": 6,
    "relieved always": 5,
    "vectors taken for words": 3,
    "handoffs without a home": 3,
}
"""Seeds of those that the first one does not show."""
CATALOGUE = tuple(Mutant(*case, SEEDS.get(case[0], 1)) for case in _CASES)


def found(mutant: Mutant, known: dict[str, Scenario], seeds: Iterable[int]) -> Iterator[int]:
    """The seeds of these that find the mutant, by the claim that is meant."""
    for seed in seeds:
        violations = play(known[mutant.scenario], mutant.scenario, seed, mutant.parts).violations
        if any(violation.checker == mutant.checker for violation in violations):
            yield seed
