"""VALUE: what came of one chat, as its client saw it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

End = Literal["complete", "error", "refused", "cut", "left", "silent"]
"""How it ended: whole, with an error event, refused with a status, cut off without a word, left by
this client, or without any answer."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What came of a chat; times in seconds of the monotonic clock.

    `due_s` is when it should have been sent, `stamps` are the arrivals of data behind the head.
    `code` is the error's; `retry_after` the header, "" if there was none. A body that ended as its
    framing says was `clean`, whatever it said.
    """

    due_s: float
    sent_s: float
    ended_s: float
    end: End
    status: int = 0
    node: str = ""
    code: str = ""
    retry_after: str = ""
    stamps: tuple[float, ...] = ()
    done_marks: int = 0
    error_events: int = 0
    text: str = ""
    clean: bool = True

    @property
    def latency_s(self) -> float:
        """From when it was due to its end."""
        return self.ended_s - self.due_s

    @property
    def lag_s(self) -> float:
        """How much too late this client sent it."""
        return self.sent_s - self.due_s

    @property
    def ttft_s(self) -> float:
        """From when it was due to the first data behind the head; nan if there was none."""
        return self.stamps[0] - self.due_s if self.stamps else float("nan")

    @property
    def gaps_s(self) -> list[float]:
        """Times between arrivals."""
        return [b - a for a, b in pairwise(self.stamps)]


def rebased(answers: Sequence[Answer], origin_s: float, *, stamps: bool) -> tuple[Answer, ...]:
    """Count times from `origin_s`, to a tenth of a millisecond, as files keep them.

    Without `stamps` the arrivals are left out.
    """
    return tuple(
        msgspec.structs.replace(
            answer,
            due_s=round(answer.due_s - origin_s, 4),
            sent_s=round(answer.sent_s - origin_s, 4),
            ended_s=round(answer.ended_s - origin_s, 4),
            stamps=tuple(round(s - origin_s, 4) for s in answer.stamps) if stamps else (),
        )
        for answer in answers
    )
