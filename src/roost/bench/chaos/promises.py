"""DECIDER: which promises of GUARANTEES.md a run has tried, and which of them it has broken.

A promise is judged by what clients and the machine have seen, never by what roost says of itself.
A promise that no fault of the run has put to the test is not kept: it is `untried`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from roost.bench.chaos.schedule import Fault
from roost.bench.chaos.seen import Seen, Spoken, Struck
from roost.bench.chaos.soak import growths
from roost.bench.drills.answers import Answer

Kept = Literal["kept", "broken", "untried", "not offered"]
TOLD_MAX = 3
"""Examples of what went wrong that a verdict gives."""
SLACK_S = 0.2
"""How far what a client sees may be from what the fleet did: both are seen over sockets."""
CUT_S = 6.0
"""A stuck reader has given its place back by then; the write deadline of the run is part of it."""


class Verdict(msgspec.Struct, frozen=True):
    """One promise in its own words: kept or not; how often it was tried; examples.

    What a gateway of somebody else's does not do at all is `not offered`.
    """

    promise: str
    kept: Kept
    tried: int
    broken: tuple[str, ...] = ()


class Found(NamedTuple):
    """How often a promise was tried, and each time that it was not kept."""

    tried: int
    broken: list[str]


Judge = Callable[[Seen], Found]


def verdicts(seen: Seen) -> list[Verdict]:
    """Judge every promise."""
    return [verdict(promise, judge, seen) for promise, judge in PROMISES.items()]


def verdict(promise: str, judge: Judge, seen: Seen) -> Verdict:
    """Judge one promise."""
    tried, broken = judge(seen)
    kept: Kept = "broken" if broken else "kept" if tried else "untried"
    return Verdict(promise, kept, tried, tuple(broken[:TOLD_MAX]))


def strikes_of(seen: Seen, *faults: Fault) -> list[Struck]:
    """Return the strikes of these faults."""
    return [one for one in seen.strikes if one.fault in faults]


def overlaps(answer: Answer, one: Struck) -> bool:
    """Whether a chat was under way while a fault lasted."""
    return answer.sent_s < one.over_s and answer.ended_s > one.begun_s


def heard(seen: Seen) -> list[Spoken]:
    """The chats whose clients stayed, and whose gateway did."""
    down = strikes_of(seen, "restart-gateway")
    return [
        one
        for one in seen.spoken
        if one.answer.end != "left" and not any(overlaps(one.answer, s) for s in down)
    ]


def each(answers: Iterable[Spoken], wrong: Callable[[Answer], str]) -> Found:
    """Judge each answer by itself: what is wrong with it, or nothing."""
    told = [(one.answer, wrong(one.answer)) for one in answers]
    return Found(len(told), [f"at {a.sent_s:.1f} s: {words}" for a, words in told if words])


def _ends_once(seen: Seen) -> Found:
    def wrong(answer: Answer) -> str:
        if answer.end in ("silent", "cut"):
            return f"it had no end ({answer.end})"
        ends = answer.done_marks + answer.error_events + (answer.end == "refused")
        return f"it had {ends} ends" if ends != 1 else ""

    return each(heard(seen), wrong)


def _cuts_are_told(seen: Seen) -> Found:
    def wrong(answer: Answer) -> str:
        if answer.done_marks:
            return "an error, and then [DONE]"
        if answer.clean:
            return "an error, and then the end of a whole body"
        return f"{answer.error_events} error events" if answer.error_events != 1 else ""

    failed = [one for one in seen.spoken if one.answer.end == "error" or one.answer.error_events]
    return each(failed, wrong)


def _in_order(seen: Seen) -> Found:
    return Found(len(seen.spoken), list(_disordered(seen.spoken)))


def _disordered(spoken: Iterable[Spoken]) -> Iterator[str]:
    for one in spoken:
        text = one.answer.text
        if one.answer.end == "complete" and text != one.whole:
            yield f"at {one.answer.sent_s:.1f} s: a whole answer of {len(text)} characters is wrong"
        elif not one.whole.startswith(text):
            yield f"at {one.answer.sent_s:.1f} s: what came before its end is not its beginning"


def _replayed(seen: Seen) -> Found:
    """Those that ran on a node when it was killed, and were whole all the same."""
    ran = [
        one
        for strike in strikes_of(seen, "kill-node")
        for one in seen.spoken
        if one.manner == "replay" and _ran_on(one.answer, strike)
    ]
    return Found(len(ran), list(_disordered(ran)))


def _ran_on(answer: Answer, strike: Struck) -> bool:
    return answer.node == strike.victim and answer.sent_s < struck_s(strike) < answer.ended_s


def struck_s(strike: Struck) -> float:
    """Return when it was struck; a fault may begin with something else."""
    return strike.figures.get("struck_s", strike.begun_s)


def _killed_nodes(seen: Seen) -> Found:
    broken = []
    strikes = strikes_of(seen, "kill-node")
    for strike in strikes:
        at = f"at {strike.begun_s:.1f} s"
        ran = [one.answer for one in seen.spoken if _ran_on(one.answer, strike)]
        broken += [f"{at}: {a.end}" for a in ran if a.end in ("cut", "silent")]
        others = [
            one.answer
            for one in heard(seen)
            if overlaps(one.answer, strike) and one.answer.node not in ("", strike.victim)
        ]
        if not any(answer.end == "complete" for answer in others):
            broken.append(f"{at}: nobody else served")
        broken += [f"{at}: another node's answer: {a.end}" for a in others if a.end != "complete"]
    return Found(len(strikes), broken)


def _answered_elsewhere(seen: Seen) -> Found:
    """Those that were asked for while a machine was killed and was away."""
    tried = [
        one
        for strike in strikes_of(seen, "kill-node")
        for one in heard(seen)
        if overlaps(one.answer, strike)
    ]

    def wrong(answer: Answer) -> str:
        failed = answer.end in ("error", "refused", "silent") and answer.status != 429
        silent = failed and not answer.text
        return (
            f"{answer.end} {answer.status} {answer.code} before the first token" if silent else ""
        )

    return each(tried, wrong)


def _hung_nodes(seen: Seen) -> Found:
    broken = []
    strikes = strikes_of(seen, "stop-node")
    for strike in strikes:
        noticed_s, resumed_s = strike.figures["noticed_s"], strike.figures["resumed_s"]
        given = [
            one.answer.sent_s
            for one in seen.spoken
            if one.answer.node == strike.victim
            and noticed_s + SLACK_S < one.answer.sent_s < resumed_s - SLACK_S
        ]
        broken += [f"at {at_s:.1f} s: new work for it" for at_s in given]
        if not strike.figures["back"]:
            broken.append(f"at {strike.over_s:.1f} s: it did not come back")
    return Found(len(strikes), broken)


def _drained_nodes(seen: Seen) -> Found:
    broken = []
    strikes = strikes_of(seen, "drain")
    for strike in strikes:
        drained_s, back_s = strike.figures["drained_s"], strike.figures["undrained_s"]
        broken += [
            f"at {one.answer.sent_s:.1f} s: new work for it"
            for one in seen.spoken
            if one.answer.node == strike.victim
            and drained_s + SLACK_S < one.answer.sent_s < back_s - SLACK_S
        ]
    return Found(len(strikes), broken)


def _figure(*faults: Fault, name: str, least: float = 1.0, words: str) -> Judge:
    """Judge a fault by a figure of its own, which is at least so much."""

    def judge(seen: Seen) -> Found:
        strikes = strikes_of(seen, *faults)
        return Found(
            len(strikes),
            [
                f"at {one.begun_s:.1f} s: {words.format(one.figures[name])}"
                for one in strikes
                if one.figures[name] < least
            ],
        )

    return judge


def _stuck_readers(seen: Seen) -> Found:
    broken = []
    strikes = strikes_of(seen, "stuck-reader")
    for strike in strikes:
        at = f"at {strike.begun_s:.1f} s"
        if strike.figures["cut_s"] > CUT_S:
            broken.append(f"{at}: it kept its place for {strike.figures['cut_s']:.1f} s")
        if strike.figures["done_marks"]:
            broken.append(f"{at}: it was told that it was answered")
        others = [one.answer for one in heard(seen) if overlaps(one.answer, strike)]
        broken += [
            f"{at}: another client's answer: {answer.end} {answer.code}"
            for answer in others
            if answer.end not in ("complete", "refused")
        ]
    return Found(len(strikes), broken)


def _one_load(seen: Seen) -> Found:
    strikes = strikes_of(seen, "stampede")
    broken = [
        f"at {one.begun_s:.1f} s: {one.figures['loads']:g} loads for so many clients: "
        f"{one.figures['asked']:g}"
        for one in strikes
        if one.figures["loads"] != 1
    ]
    return Found(len(strikes), broken)


def _full_disks(seen: Seen) -> Found:
    full = [one for one in strikes_of(seen, "disk-full") if one.figures["full"]]
    broken = [
        f"at {one.begun_s:.1f} s: {one.figures['failed']:g} turns were not answered"
        for one in full
        if one.figures["failed"]
    ]
    return Found(len(full), broken)


def _refusals_hint(seen: Seen) -> Found:
    refused = [one for one in seen.spoken if one.answer.status == 429]
    return each(refused, lambda a: "" if a.retry_after.isdigit() else "a 429 without `retry-after`")


def _slots_come_free(seen: Seen) -> Found:
    left = sum(one.manner == "leaves" for one in seen.spoken)
    return Found(left, [f"{who} still holds {what}" for who, what in seen.held.items()])


def _read_turns_are_kept(seen: Seen) -> Found:
    broken = [
        f"{talk.name}: turn {number} was read and is not kept"
        for talk in seen.talked
        for number in sorted(set(talk.read) - set(talk.kept))
    ]
    struck = bool(strikes_of(seen, "restart-gateway"))
    return Found(sum(len(talk.read) for talk in seen.talked) if struck else 0, broken)


def _turns_in_order(seen: Seen) -> Found:
    broken = [
        f"{talk.name}: turns are kept as {talk.kept}"
        for talk in seen.talked
        if list(talk.kept) != sorted(set(talk.kept))
    ]
    return Found(len(seen.talked), broken)


def _homes_are_told(seen: Seen) -> Found:
    broken = [lie for talk in seen.talked for lie in talk.lies]
    return Found(sum(len(talk.read) for talk in seen.talked), broken)


def _level(seen: Seen) -> Found:
    found = growths(seen.readings)
    return Found(len(found), [str(one) for one in found if one.leaks])


PROMISES: dict[str, Judge] = {
    "Every request that was accepted ends exactly once, whatever dies or leaves meanwhile": (
        _ends_once
    ),
    "An answer that is cut ends in one error event and a broken body, never in a clean end": (
        _cuts_are_told
    ),
    "Text arrives in order, without loss or repetition, however slowly it is read": _in_order,
    "kill -9 of a machine in mid-answer loses no character of an answer that may be replayed, "
    "and doubles none": _replayed,
    "A failure before the first token is answered by another machine if one can": (
        _answered_elsewhere
    ),
    "kill -9 of a node costs its streams an error event; others serve": _killed_nodes,
    "A process that is killed with -9 leaves no process, not even in the middle of a load": _figure(
        "kill-node", name="gone", words="of its processes some are left"
    ),
    "A node that hangs gets no new work and comes back by itself": _hung_nodes,
    "A gateway that is started again finds its nodes again": _figure(
        "restart-gateway", name="nodes_back", words="not all nodes were back"
    ),
    "Whoever has read the end of a turn finds the turn after any crash, unless the disk was full "
    "then, which a gauge tells": _read_turns_are_kept,
    "Turns of one conversation run one after the other, in the order in which they came, and know "
    "each other": _turns_in_order,
    "No turn is called warm whose node had lost most of what it held, and the loss is counted": (
        _homes_are_told
    ),
    "Nothing new goes to a drained node, and only operators may drain": _drained_nodes,
    "A client that does not read loses its own stream and no other": _stuck_readers,
    "A client that leaves frees its slot, in prefill and in decode, beside a neighbour that goes "
    "on": _slots_come_free,
    "Requests for a model that nobody runs start one load, however many they are and however many "
    "nodes are idle": _one_load,
    "The queue is bounded, and a refusal says when to come back": _refusals_hint,
    "A full disk ends no conversation": _full_disks,
    "A gateway whose port is taken ends with 1 and says so, and the one that has it goes on": (
        _figure("port-taken", name="told", words="the second gateway did not end in words and 1")
    ),
    "Under load and faults a gateway and its nodes hold no more memory, descriptors, threads and "
    "tasks later than sooner": _level,
}
"""Every promise that faults can try, in the words of GUARANTEES.md."""
