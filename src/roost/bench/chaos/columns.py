"""DECIDER: the same promises, judged of gateways of somebody else's.

They stand before servers and not nodes, say nothing of whom they have chosen, and do less: so some
promises are judged by clients alone, and some do not apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roost.bench.chaos.promises import (
    PROMISES,
    SLACK_S,
    TOLD_MAX,
    Found,
    Judge,
    Verdict,
    each,
    heard,
    overlaps,
    strikes_of,
    struck_s,
    verdict,
)
from roost.bench.chaos.seen import Seen
from roost.bench.drills.answers import Answer

NOT_OFFERED = (
    "kill -9 of a machine in mid-answer",
    "A process that is killed with -9",
    "Whoever has read the end of a turn",
    "Turns of one conversation",
    "No turn is called warm",
    "Requests for a model that nobody runs",
    "A full disk",
)
"""How those promises begin that are about nodes, loads and conversations."""
LATE_S = 1.0
"""A chat that began so long before a hung server went on, and ended after that, hung too."""


def front_verdicts(seen: Seen) -> list[Verdict]:
    """Judge every promise that applies to a gateway before servers."""
    found = []
    for promise, judge in PROMISES.items():
        if promise.startswith(NOT_OFFERED):
            found.append(Verdict(promise, "not offered", 0))
            continue
        others = (other for start, other in OTHERWISE.items() if promise.startswith(start))
        found.append(verdict(promise, next(others, judge), seen))
    return found


def _cuts_are_told(seen: Seen) -> Found:
    def wrong(answer: Answer) -> str:
        if answer.end == "cut":
            end = "a clean end" if answer.clean else "a broken body"
            return f"{end} without a word of an error"
        if answer.done_marks:
            return "an error, and then [DONE]"
        return "an error, and then the end of a whole body" if answer.clean else ""

    return each((one for one in heard(seen) if one.answer.end in ("cut", "error")), wrong)


def _killed_servers(seen: Seen) -> Found:
    """Whoever was being answered and did not get all of it was the killed server's."""
    broken = []
    strikes = strikes_of(seen, "kill-node")
    for strike in strikes:
        at = f"at {strike.begun_s:.1f} s"
        ran = [
            one.answer
            for one in heard(seen)
            if overlaps(one.answer, strike) and one.answer.sent_s < struck_s(strike)
        ]
        cut = [one.end for one in ran if one.end in ("cut", "silent")]
        if cut:
            broken.append(f"{at}: {len(cut)} of {len(ran)} streams were {cut[0]}, without a word")
        if not any(one.end == "complete" for one in ran):
            broken.append(f"{at}: nobody else served")
    return Found(len(strikes), broken)


def _hung_servers(seen: Seen) -> Found:
    """Chats that were begun while a server hung, long after that could be known."""
    broken = []
    strikes = strikes_of(seen, "stop-node")
    for strike in strikes:
        noticed_s, resumed_s = strike.figures["noticed_s"], strike.figures["resumed_s"]
        begun = [
            one.answer
            for one in heard(seen)
            if noticed_s + SLACK_S < one.answer.sent_s < resumed_s - LATE_S
        ]
        hung = [one for one in begun if one.ended_s > resumed_s or one.end != "complete"]
        if hung:
            broken.append(f"at {noticed_s:.1f} s: {len(hung)} of {len(begun)} chats went to it")
        if not strike.figures["back"]:
            broken.append(f"at {strike.over_s:.1f} s: it got no work again")
    return Found(len(strikes), broken)


OTHERWISE: dict[str, Judge] = {
    "An answer that is cut ends": _cuts_are_told,
    "kill -9 of a node costs": _killed_servers,
    "A node that hangs": _hung_servers,
}
"""How those promises begin that are judged in another way."""


def side_by_side(columns: Mapping[str, Sequence[Verdict]]) -> str:
    """Render the verdicts of several gateways as a table in Markdown, one column each."""
    heads = ["promise", *columns]
    rows = [
        [one.promise, *(_cell(columns[name][at]) for name in columns)]
        for at, one in enumerate(next(iter(columns.values())))
    ]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(one: Verdict) -> str:
    return f"{one.kept} ({one.tried})" if one.tried else one.kept


def broken_lines(columns: Mapping[str, Sequence[Verdict]]) -> list[str]:
    """Say what was broken by whom, with an example or more."""
    return [
        f"{name}: {one.promise}\n    " + "\n    ".join(one.broken[:TOLD_MAX])
        for name, column in columns.items()
        for one in column
        if one.broken
    ]
