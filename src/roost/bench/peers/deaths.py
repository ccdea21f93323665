"""DECIDER: what clients of a gateway see when the only server behind it is killed in mid-stream."""

from __future__ import annotations

from collections import Counter

import msgspec

from roost.bench.drills.answers import Answer

STREAMS, EVENTS_EACH, GAP_US, EVENTS = 8, 8, 20_000, 1000
STUB = (EVENTS, GAP_US, STREAMS, EVENTS_EACH)
"""The server kills itself when so many streams have had so many events; by then none has ended."""


class Death(msgspec.Struct, frozen=True):
    """What came of the streams that ran, and of one chat that was asked for afterwards."""

    variant: str
    answers: tuple[Answer, ...]
    after: Answer

    @property
    def streams(self) -> str:
        """How the streams ended, most of them first."""
        ends = Counter(how(answer) for answer in self.answers)
        if len(ends) == 1:
            return next(iter(ends))
        return ", ".join(f"{count} {words}" for words, count in ends.most_common())

    @property
    def then(self) -> str:
        """How the chat afterwards ended."""
        if self.after.end != "refused":
            return how(self.after)
        return f"{self.after.status}" + (", retry-after" if self.after.retry_after else "")


def how(answer: Answer) -> str:
    """Name an end in words: the first four are said of streams that were cut."""
    if answer.end == "error":
        return "error event, then [DONE]" if answer.done_marks else "error event"
    if answer.end == "cut":
        return "clean end without [DONE]" if answer.clean else "broken body"
    named = {"complete": "false [DONE]", "refused": f"refused with {answer.status}"}
    return named.get(answer.end, answer.end)
