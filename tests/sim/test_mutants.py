"""Each defective machine is found, within a few seeds, by the claim that it breaks."""

from __future__ import annotations

import pytest

from roost.sim.play import Parts, play
from roost.sim.run import scenarios
from tests.sim import mutants

KNOWN = scenarios()
SEEDS = range(1, 11)
CASES: list[tuple[str, Parts, str, str]] = [
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
    ("homes forgotten", mutants.settings(affinity_entries=0), "calm", "second_turn_is_warm"),
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
]


@pytest.mark.parametrize(
    ("parts", "scenario", "checker"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_mutant_is_found(parts: Parts, scenario: str, checker: str) -> None:
    """One of the first seeds shows the defect, and it breaks the claim that is meant.

    Seeds are tried in turn, because a change of timing anywhere moves the first one that shows it;
    the same seeds pass with the production machines in the tests of the scenarios.
    """
    found: set[str] = set()
    for seed in SEEDS:
        violations = play(KNOWN[scenario], scenario, seed, parts).violations
        found |= {violation.checker for violation in violations}
        if checker in found:
            return
    pytest.fail(f"survived {len(SEEDS)} seeds of {scenario}, which broke only {sorted(found)}")
