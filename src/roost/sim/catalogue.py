"""WIRING: the catalogue of mutants: what is broken, where it shows, which claim has to find it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from roost.sim import (
    aside_defects,
    defects,
    forgetful,
    home_defects,
    losses,
    mutants,
    room_defects,
    talk_defects,
)
from roost.sim.play import Parts, play
from roost.sim.scenario import Scenario


class Mutant(msgspec.Struct, frozen=True):
    """One defect: `scenario` shows it with `seed`, and `checker` is the claim that it breaks."""

    name: str
    parts: Parts
    scenario: str
    checker: str
    seed: int


_CASES: list[tuple[str, Parts, str, str]] = [
    (
        "lease kept on cancel",
        mutants.coordinator(mutants.KeepsLeasesOfTheGone),
        "vanishing_clients",
        "leases_return",
    ),
    (
        "lease given back twice over",
        mutants.coordinator(mutants.ReleasesBeforeTheNode),
        "cold_start",
        "places_within_limits",
    ),
    (
        "leases not counted",
        mutants.coordinator(mutants.OverlooksLeases),
        "deadlines",
        "places_within_limits",
    ),
    (
        "retry after a byte",
        mutants.coordinator(mutants.RetriesAfterAByte),
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
        mutants.coordinator(mutants.BelievesLateEvents),
        "late_news",
        "machines_agree",
    ),
    (
        "late events shown to the client",
        mutants.front(mutants.LetsLateEventsThrough),
        "late_news",
        "no_machine_raises",
    ),
    (
        "stale nodes waited for",
        mutants.coordinator(mutants.NeverGivesUpOnSilence),
        "partition",
        "loss_is_noticed",
    ),
    (
        "work for draining nodes",
        mutants.coordinator(mutants.OverlooksDraining),
        "rolling_restart",
        "no_work_for_draining",
    ),
    (
        "work for silent nodes",
        mutants.settings(link_suspect_s=4.9),
        "late_news",
        "no_work_into_silence",
    ),
    (
        "retry in place",
        mutants.coordinator(mutants.RetriesInPlace),
        "runtime_killed",
        "retries_go_elsewhere",
    ),
    (
        "no retry budget",
        mutants.settings(retry_floor=1000, retry_attempts=1000),
        "load_failures",
        "retry_budget",
    ),
    (
        "refusals without hint",
        mutants.coordinator(mutants.AnswersWithoutHint),
        "overload",
        "refusals_say_when",
    ),
    (
        "lost requests forgotten",
        mutants.coordinator(mutants.ForgetsTheLost),
        "node_killed",
        "one_ending",
    ),
    (
        "cancel not sent",
        mutants.coordinator(mutants.NeverWithdraws),
        "cold_start",
        "cancelled_work_stops",
    ),
    (
        "free places not offered",
        mutants.coordinator(mutants.NeverLooksAgain),
        "cold_start",
        "places_are_used",
    ),
    ("ties by order", mutants.tie_by_order(), "quiet", "ties_are_shared"),
    ("unbounded queue", mutants.settings(queue_length=10**6), "overload", "queue_bounded"),
    ("unbounded wait", mutants.settings(queue_wait_s=1e6), "overload", "queue_bounded"),
    ("merged text lost", mutants.relay(mutants.LosesMerged), "calm", "tokens_contiguous"),
    ("text sent twice", mutants.relay(mutants.SendsTwice), "calm", "tokens_contiguous"),
    (
        "cut stream ended cleanly",
        mutants.relay(mutants.EndsCleanly),
        "deadlines",
        "no_silent_truncation",
    ),
    ("stuck writer waited for", mutants.relay(mutants.WaitsForEver), "slow_clients", "one_ending"),
    ("credit never renewed", mutants.relay(mutants.GrantsNothing), "slow_clients", "one_ending"),
    (
        "credit beyond the buffer",
        mutants.relay(mutants.GrantsTooMuch),
        "slow_clients",
        "machines_agree",
    ),
    (
        "disconnect not reported",
        mutants.relay(mutants.HangsUpSilently),
        "vanishing_clients",
        "no_machine_raises",
    ),
    (
        "cancel ignored by the node",
        mutants.agent(mutants.IgnoresCancel),
        "cold_start",
        "cancelled_work_stops",
    ),
    (
        "lost link ignored by the node",
        mutants.agent(mutants.IgnoresLostLinks),
        "mixed",
        "slots_return",
    ),
    ("released twice by the node", mutants.agent(mutants.ReleasesTwice), "calm", "machines_agree"),
    (
        "limit ignored by the node",
        mutants.agent(mutants.OverlooksItsLimit),
        "crowded",
        "machines_agree",
    ),
    ("fencing not checked", mutants.agent(mutants.KnowsNoFences), "fenced", "one_owner"),
    (
        "epoch not raised",
        mutants.coordinator(mutants.NeverRaisesTheEpoch),
        "runtime_killed",
        "one_owner",
    ),
    ("replay a token behind", mutants.relay(losses.IsATokenBehind), "replayed", "replays_go_on"),
    (
        "replay told before it is one",
        mutants.relay(losses.MarksTooEarly),
        "deaths",
        "replays_are_told",
    ),
    (
        "replay told by its last part",
        mutants.relay(losses.CountsTheLastAttempt),
        "replayed",
        "usage_adds_up",
    ),
    (
        "replay on other weights",
        mutants.coordinator(losses.OverlooksWeights),
        "replayed",
        "replays_go_on",
    ),
    (
        "replay beyond the budget",
        mutants.coordinator(losses.ReplaysBeyondTheBudget),
        "deaths",
        "retry_budget",
    ),
    (
        "longest replays first",
        mutants.coordinator(losses.ReplaysTheLongestFirst),
        "replayed",
        "shorter_first",
    ),
    (
        "all replays at once",
        mutants.settings(redispatch_per_node=99),
        "replayed",
        "survivors_are_spared",
    ),
    ("fleet cap ignored", mutants.settings(max_decodes=0), "capped", "caps_hold"),
    ("node cap ignored", mutants.settings(max_decodes_per_node=0), "capped", "caps_hold"),
    ("no quarantine", mutants.settings(quarantine_kills=99), "poison", "no_third_victim"),
    (
        "all the bereaved at once",
        mutants.settings(redispatch_per_node=99),
        "bereaved",
        "survivors_are_spared",
    ),
    (
        "line without tenants",
        mutants.coordinator(defects.FirstComeFirstServed),
        "flood",
        "newcomers_are_served",
    ),
    (
        "nobody charged",
        mutants.coordinator(defects.ChargesNobody),
        "flood",
        "newcomers_are_served",
    ),
    (
        "newcomers refused",
        mutants.coordinator(defects.RefusesNewcomers),
        "flood",
        "floods_give_way",
    ),
    (
        "classes not known",
        mutants.coordinator(defects.KnowsNoClasses),
        "classes",
        "better_classes_first",
    ),
    (
        "line walked backwards",
        mutants.coordinator(defects.ServesTheLastFirst),
        "classes",
        "better_classes_first",
    ),
    ("classes starve", mutants.settings(class_one_in=10**6), "classes", "classes_take_turns"),
    (
        "cancel by id ignored",
        mutants.coordinator(defects.IgnoresCancelById),
        "cancelled",
        "cancelled_requests_end",
    ),
    (
        "stopped and not withdrawn",
        mutants.coordinator(defects.StopsWithoutWithdrawing),
        "cancelled",
        "cancelled_work_stops",
    ),
    (
        "cancelled after the end",
        mutants.coordinator(defects.AnswersTheFinished),
        "calm",
        "fleet_recovers",
    ),
    (
        "operator's drain ignored",
        mutants.coordinator(defects.IgnoresTheOperator),
        "parked",
        "no_work_for_draining",
    ),
    (
        "drained for ever",
        mutants.coordinator(defects.NeverTakesBack),
        "parked",
        "places_are_used",
    ),
    (
        "breaker counts busy",
        mutants.coordinator(defects.BreakerCountsBusy),
        "crowded",
        "breakers_have_causes",
    ),
    (
        "breaker without cause",
        mutants.coordinator(defects.TripsForNothing),
        "calm",
        "breakers_have_causes",
    ),
    (
        "failure zeroes the counters",
        mutants.coordinator(defects.FailureZeroesCounters),
        "poison",
        "places_within_limits",
    ),
    (
        "board blind to leases",
        mutants.coordinator(defects.SeesAnOldBoard),
        "calm",
        "places_within_limits",
    ),
    (
        "keys of all tenants in one",
        forgetful.keys(forgetful.SharesKeys),
        "keyed",
        "repeats_get_their_own_answer",
    ),
    (
        "another body under a key",
        forgetful.keys(forgetful.TakesAnyBody),
        "keyed",
        "repeats_get_their_own_answer",
    ),
    (
        "refusals kept under a key",
        forgetful.keys(forgetful.KeepsRefusals),
        "keyed",
        "repeats_get_their_own_answer",
    ),
    (
        "key of the running lost",
        forgetful.keys(forgetful.ForgetsTheRunning),
        "keyed",
        "one_run_per_key",
    ),
    (
        "key of the answered lost",
        forgetful.keys(forgetful.ForgetsTheAnswered),
        "keyed",
        "one_run_per_key",
    ),
    (
        "keys forgotten too early",
        forgetful.keys(forgetful.ForgetsTooEarly),
        "keyed",
        "one_run_per_key",
    ),
    (
        "reader back a step too far",
        forgetful.log(forgetful.SkipsOne),
        "wandering",
        "returned_readers_miss_nothing",
    ),
    (
        "reader back a step too early",
        forgetful.log(forgetful.RepeatsOne),
        "wandering",
        "returned_readers_miss_nothing",
    ),
    (
        "what has fallen out passed over",
        forgetful.log(forgetful.GivesWhatThereIs),
        "wandering",
        "returned_readers_miss_nothing",
    ),
    (
        "turns begin at once",
        mutants.registry(talk_defects.BeginsAtOnce),
        "named",
        "turns_take_turns",
    ),
    (
        "the latest turn first",
        mutants.registry(talk_defects.ServesTheLatest),
        "named",
        "turns_take_turns",
    ),
    (
        "running turns swept away",
        mutants.registry(talk_defects.SweepsTheActive),
        "named",
        "turns_take_turns",
    ),
    (
        "past recalled too early",
        mutants.talks(talk_defects.RecallsTooEarly),
        "named",
        "conversations_never_fork",
    ),
    (
        "cut answers forgotten",
        mutants.talks(talk_defects.ForgetsCutAnswers),
        "named",
        "conversations_never_fork",
    ),
    (
        "unanswered questions kept",
        mutants.talks(talk_defects.KeepsTheUnanswered),
        "named",
        "conversations_never_fork",
    ),
    (
        "the choosy block the line",
        mutants.coordinator(talk_defects.BlockedByTheChoosy),
        "insisting",
        "places_are_used",
    ),
    ("end told first", mutants.relay(talk_defects.TellsTheEndFirst), "named", "ends_are_kept"),
    ("drops untold", mutants.relay(talk_defects.DropsUntold), "dropping", "tokens_contiguous"),
    (
        "the newest dropped",
        mutants.relay(talk_defects.DropsTheNewest),
        "dropping",
        "drops_are_told",
    ),
    (
        "dropped unasked",
        mutants.relay(talk_defects.DropsUnasked),
        "slow_clients",
        "drops_are_told",
    ),
    *aside_defects.CASES,
    *home_defects.CASES,
]

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
    "what is required computed anew": 3,
}
"""Seeds of those that the first one does not show."""
CATALOGUE = tuple(Mutant(*case, SEEDS.get(case[0], 1)) for case in (*_CASES, *room_defects.CASES))


def found(mutant: Mutant, known: dict[str, Scenario], seeds: Iterable[int]) -> Iterator[int]:
    """The seeds of these that find the mutant, by the claim that is meant."""
    for seed in seeds:
        violations = play(known[mutant.scenario], mutant.scenario, seed, mutant.parts).violations
        if any(violation.checker == mutant.checker for violation in violations):
            yield seed
