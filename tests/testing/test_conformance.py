"""The conformance suite finds every kind of broken runtime, and only reports what is claimed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from roost.backends.scripted.backend import ScriptedBackend
from roost.backends.scripted.script import Script
from roost.core.model import Capabilities, Manifest
from roost.testing.conformance import CASES, Case, Subject, check, examine, failed, table
from tests.backends.subjects import MODEL, key_of, settings_in
from tests.testing import twisted
from tests.testing.twisted import Flaws, TwistedBackend, kill_twisted

SCRIPT = Script(delay_ms=0.2, prefill_ms_per_token=0.01)

FLAWS = {
    "two terminals": (Flaws(twisted.two_ends), "text is completed"),
    "two terminals, asked on": (Flaws(twisted.two_ends), "the end is the end"),
    "no terminal": (Flaws(twisted.no_end), "text is completed"),
    "no start": (Flaws(twisted.no_start), "text is completed"),
    "progress after text": (Flaws(twisted.late_progress), "text is completed"),
    "everything at once": (Flaws(twisted.one_piece), "answers come in pieces"),
    "a split character": (Flaws(twisted.split_characters), "characters stay whole"),
    "a leaked stop string": (Flaws(prepared=twisted.without_stops), "stop strings stop"),
    "an unnamed stop string": (Flaws(twisted.unnamed_stop), "stop strings stop"),
    "lost text": (Flaws(twisted.lost_tail), "held text is released"),
    "one token too many": (Flaws(prepared=twisted.one_more), "limits hold"),
    "a wrong count": (Flaws(twisted.miscounted), "counts are exact"),
    "a wrong cached count": (Flaws(twisted.cached_lie), "prefixes are reused"),
    "a slot kept after prefill": (Flaws(keeps_slot=True), "leaving prefill frees"),
    "a slot kept after decode": (Flaws(keeps_slot=True), "leaving decode frees"),
    "a slot kept beside others": (Flaws(keeps_slot=True), "leaving beside a neighbour frees"),
    "a slot kept from a reader": (Flaws(keeps_slot=True), "a cancelled reader frees"),
    "mixed streams": (Flaws(mixes=True), "streams do not mix"),
    "a reader that stops all": (Flaws(one_at_a_time=True), "slow readers wait alone"),
    "a death told as an end": (Flaws(twisted.quiet_death), "death is told"),
    "a death told as an error": (Flaws(twisted.vague_death), "death is told"),
    "life after death": (Flaws(lives_on=True), "stop is final"),
    "numbers let through": (Flaws(request=twisted.harmless), "bad numbers are refused"),
    "an ignored seed": (Flaws(prepared=twisted.own_seed), "seeds repeat"),
    "a foreign prefix reused": (Flaws(reuse=True), "prefixes are reused"),
    "nothing ever reused": (Flaws(reuse=False), "prefixes are reused"),
    "a foreign exception": (Flaws(odd_refusal=twisted.odd("foreign")), "bad numbers are refused"),
    "a wrong reason": (Flaws(odd_refusal=twisted.odd("reason")), "too long is refused"),
    "conversations computed anew": (Flaws(reuse=False), "sessions go on"),
    "a state of another slot": (Flaws(states="saves another slot"), "states come back"),
    "a state that is empty": (Flaws(states="restores nothing"), "states come back"),
    "a state wrongly counted": (Flaws(states="counts wrongly"), "saving changes nothing"),
    "a slot that cannot be erased": (Flaws(states="erases nothing"), "states come back"),
    "a bad state taken": (Flaws(states="hides failures"), "bad states are refused"),
    "a lost folder": (Flaws(states="mourns its folder"), "a lost folder is made again"),
    "a state lost beside others": (Flaws(states="restores nothing"), "states do not disturb"),
    "a format left out": (Flaws(request=twisted.unheld), "schemas hold"),
    "a grammar left out": (Flaws(request=twisted.unheld), "grammars hold"),
    "any object for JSON": (Flaws(request=twisted.unheld), "answers are JSON"),
    "a bad format left out": (Flaws(request=twisted.unheld), "bad formats are refused"),
    "a bias left out": (Flaws(request=twisted.harmless), "what is not claimed is refused"),
    "vectors of other inputs": (Flaws(vectors=twisted.turned), "texts become vectors"),
    "vectors of any length": (Flaws(vectors=twisted.longer), "texts become vectors"),
    "a wrong reason for texts": (
        Flaws(odd_tokens=twisted.odd("reason")),
        "bad inputs are refused",
    ),
    "scores of other documents": (Flaws(scores=twisted.ranked), "documents are scored"),
    "loading backwards": (Flaws(progress=(0.5, 0.1, 1.0)), "loading is told"),
    "loading without end": (Flaws(progress=(0.5,)), "loading is told"),
}


def subject(folder: Path, flaws: Flaws, script: Script = SCRIPT) -> Subject:
    """Give a subject with these flaws, and a short patience with it."""
    return Subject(
        TwistedBackend(ScriptedBackend(script), flaws),
        key_of("twisted", ctx=1024),
        Manifest(MODEL, "", 0, "sha256:0", format="scripted"),
        settings_in(folder, release_timeout_s=0.05),
        kill_twisted,
        patience_s=0.1,
        case_timeout_s=0.5,
    )


def named(name: str) -> Case:
    """Find a case by its name."""
    return next(case for case in CASES if case.name == name)


@pytest.mark.parametrize("flaw", FLAWS)
async def test_flaw_is_found(flaw: str, tmp_path: Path) -> None:
    """A runtime with one flaw fails the case that is about it."""
    flaws, name = FLAWS[flaw]
    result = await check(named(name), subject(tmp_path, flaws))
    assert result.status == "broken", result
    assert result.detail


async def test_slow_release_is_found(tmp_path: Path) -> None:
    """A slot that takes longer than allowed to become free fails the case, with the reason."""
    script = msgspec.structs.replace(SCRIPT, release_ms=1000.0)
    case = named("leaving decode frees")
    result = await check(case, subject(tmp_path, Flaws(), script))
    assert result.detail == "runtime_error: The slot did not become free in time."


async def test_no_flaw_no_finding(tmp_path: Path) -> None:
    """The same runtime without flaws passes everything, in one go, and times its releases."""
    results = await examine(subject(tmp_path, Flaws()))
    assert failed(results) == [], table(results)
    assert len(results) == len(CASES)
    measured = {name for result in results for name in result.measured}
    assert {"cancel_prefill", "cancel_decode", "cancel_decode_neighbour"} <= measured


async def test_a_broken_runtime_is_replaced(tmp_path: Path) -> None:
    """After a broken promise the next case gets a fresh runtime, so that one fault is one line."""
    cases = [named("leaving decode frees"), named("text is completed")]
    results = await examine(subject(tmp_path, Flaws(keeps_slot=True)), cases)
    assert [result.status for result in results] == ["broken", "kept"]


async def test_only_claims_are_checked(tmp_path: Path) -> None:
    """What is not claimed is reported as such, and the table says why."""

    class Modest(ScriptedBackend):
        """Claims nothing but text completion."""

        @property
        def capabilities(self) -> Capabilities:
            """Claims one thing."""
            return Capabilities(completion=True)

    modest = replace(subject(tmp_path, Flaws()), backend=Modest(SCRIPT), kill=None)
    results = await examine(modest)
    # It does more than it claims, and that is not to be.
    (only,) = failed(results)
    assert only.case.name == "what is not claimed is refused"
    others = {result.status for result in results if result is not only}
    assert others == {"kept", "not claimed", "not applicable"}
    lines = table(results).splitlines()
    seeds = next(line for line in lines if "seeds repeat" in line)
    assert seeds.split() == ["10", "seeds", "repeat", "not", "claimed", "needs", "seed"]
