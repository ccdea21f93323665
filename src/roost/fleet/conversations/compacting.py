"""DECIDER: how a past becomes shorter: what stays word for word, what a summary stands for.

    turns     1 2 3 4 5 6 7 8        the model is given
              ╰── head ──╯╰tail╯     summary of the head, then the tail as it was

The summary is a question and an answer like any other, so every chat template renders it, also one
that knows no system prompt and insists on turns. Where that is still too long the tail shrinks,
then the summary is left out, and last everything becomes summary: a ladder of `rungs`.

Tokens are counted by what this very conversation has cost so far, template included; exact they are
on the node alone, and what it refuses is tried a rung lower.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from roost.core.compacted import Trigger
from roost.core.conversation import KeptConversation, Summary
from roost.core.request import ChatPrompt, Message
from roost.text.gist import Remark, clipped, gist, kept_share, remarks, repeats_itself, script
from roost.text.sentences import facts_of

ASKED = "Summarise our conversation so far."
MARK = "[Summary] "
INSTRUCTION = (
    "Summarise the conversation below so that it can go on without the original. Keep every name, "
    "number, date, decision and open question, and what the user says of himself or herself. "
    "Write plain sentences and nothing else."
)
LABEL = "Summary:"
SUMMARY_LEAST_TOKENS = 32
"""A summary with less room than this says nothing."""
MESSAGE_TOKENS = 6
"""What a template may put around a message beyond what this conversation's own have cost."""
READ_MAX_BYTES = 32 * 1024
"""The newest text of a head that is read for a gist; it is read on the loop that serves clients."""
GAIN = 0.9
"""A past that does not become shorter than this share of itself is not worth its KV."""

Summariser = Literal["model", "extractive", "off"]
Verdict = Literal["good", "empty", "repeats", "loses"]


class CompactionSettings(msgspec.Struct, frozen=True):
    """When pasts are made shorter, and how short.

    A past may take `budget_tokens`, or the model's context where that is less; one that has reached
    the share `threshold` of it is compacted before the next turn, at most every `debounce_s`. The
    last `tail_pairs` turns stay as they are. A summary has at most `summary_max_tokens`; whoever
    makes them is `summariser`, and a model gets `summary_wait_s` for one, which has to keep the
    share `kept_least` of names and numbers. Where KV takes more than `kv_max_bytes`, 0 for any
    number, the `batch` largest idle conversations are compacted.
    """

    summariser: Summariser = "extractive"
    budget_tokens: int = 2048
    threshold: float = 0.8
    tail_pairs: int = 2
    summary_max_tokens: int = 384
    summary_wait_s: float = 15.0
    kept_least: float = 0.6
    debounce_s: float = 30.0
    kv_max_bytes: int = 16 * 2**30
    batch: int = 3


class Rate(msgspec.Struct, frozen=True):
    """What text of one conversation costs in tokens."""

    per_byte: float = 0.35

    def of(self, messages: Sequence[Message]) -> int:
        """Estimate messages, what the template puts around them included."""
        size = sum(len(message.content.encode()) for message in messages)
        return round(self.per_byte * size) + MESSAGE_TOKENS * len(messages)

    def bytes_of(self, tokens: int) -> int:
        """How much text so many tokens are."""
        return int(max(0, tokens) / self.per_byte)


class Rung(msgspec.Struct, frozen=True):
    """One step of the ladder: so many turns stay, and the others are summarised or left out."""

    pairs: int
    summarised: bool


class Draft(msgspec.Struct, frozen=True):
    """A rung that fits: the head as somebody's lines, and how long a summary of it may be."""

    rung: Rung
    head: tuple[Remark, ...]
    covers: int
    summary_tokens: int


def past_of(kept: KeptConversation) -> tuple[Message, ...]:
    """Return what the model is given of a conversation before the words of a turn."""
    made, rest = kept.summary, kept.said(kept.covered)
    if made is None or not made.text:
        return rest
    return (Message("user", ASKED), Message("assistant", MARK + made.text), *rest)


def rate_of(kept: KeptConversation) -> Rate:
    """Learn what text costs here, from what the runtime counted for the past as it is."""
    size = sum(len(message.content.encode()) for message in past_of(kept))
    if not size or not kept.pin.tokens:
        return Rate()
    # Wide bounds: they keep a count that is wrong from becoming a division by nearly nothing.
    return Rate(min(2.0, max(0.05, kept.pin.tokens / size)))


def tokens_of(kept: KeptConversation) -> int:
    """Count the past as the model gets it: what the runtime counted, else an estimate."""
    return kept.pin.tokens or rate_of(kept).of(past_of(kept))


def rungs(tail_pairs: int) -> tuple[Rung, ...]:
    """List the ladder, from what loses least."""
    falling = range(tail_pairs, 0, -1)
    return (
        *(Rung(pairs, summarised=True) for pairs in falling),
        *(Rung(pairs, summarised=False) for pairs in falling),
        Rung(0, summarised=True),
    )


def has_head(kept: KeptConversation, tail_pairs: int) -> bool:
    """Whether there is anything before the tail that the model still gets word for word."""
    return kept.turns - kept.covered > tail_pairs


def draft(kept: KeptConversation, rung: Rung, room_tokens: int, most_tokens: int) -> Draft | None:
    """Plan a rung for a past of `room_tokens`; None where it does not fit or shortens nothing."""
    covers = kept.turns - min(rung.pairs, kept.turns)
    # A rung that covers no more than now has only the summary to leave out.
    has_summary = kept.summary is not None and bool(kept.summary.text)
    least = kept.covered if has_summary and not rung.summarised else kept.covered + 1
    if covers < least:
        return None
    rate = rate_of(kept)
    left = room_tokens - rate.of(kept.said(covers))
    if not rung.summarised:
        return Draft(rung, (), covers, 0) if left >= 0 else None
    # The question that the summary answers is part of it.
    left -= rate.of((Message("user", ASKED), Message("assistant", MARK)))
    if left < SUMMARY_LEAST_TOKENS:
        return None
    return Draft(rung, _head(kept, covers), covers, min(left, most_tokens))


def extract(kept: KeptConversation, planned: Draft) -> str:
    """Summarise by the head's own sentences; "" where the rung has no summary."""
    if not planned.summary_tokens:
        return ""
    return gist(planned.head, rate_of(kept).bytes_of(planned.summary_tokens))


def request_for(planned: Draft) -> ChatPrompt:
    """Put together what a model is asked for a summary."""
    return ChatPrompt((Message("user", f"{INSTRUCTION}\n\n{script(planned.head)}\n\n{LABEL}"),))


def judge(text: str, extracted: str, kept_least: float) -> Verdict:
    """Compare a model's summary with what the extractive one found worth keeping."""
    if not text.strip():
        return "empty"
    if repeats_itself(text):
        return "repeats"
    # Names and numbers of the assistant's are often its own lists; the user's are asked for again.
    own = " ".join(one.text for one in remarks(extracted) if one.speaker != "assistant")
    wanted = facts_of(own) or facts_of(extracted)
    return "good" if kept_share(text, wanted) >= kept_least else "loses"


def polished(text: str, kept: KeptConversation, planned: Draft) -> str:
    """Bring a model's summary into its room, without a last sentence that was cut."""
    text = text.strip().removeprefix(MARK.strip()).removeprefix(LABEL).strip()
    return clipped(text, rate_of(kept).bytes_of(planned.summary_tokens))


def compacted(
    kept: KeptConversation, planned: Draft, text: str, trigger: Trigger
) -> KeptConversation | None:
    """Return the conversation with its new summary; None where the model would get no less."""
    made = Summary(text, planned.covers, kept.turns, trigger, 0)
    shorter = msgspec.structs.replace(kept, summary=made)
    before, after = tokens_of(kept), rate_of(kept).of(past_of(shorter))
    if after > GAIN * before or after >= before:
        return None
    # Made again before any turn has used the one before, it spares what both did.
    spared = 0 if kept.compacted is None else kept.compacted.dropped_tokens
    made = msgspec.structs.replace(made, dropped_tokens=spared + before - after)
    pin = msgspec.structs.replace(kept.pin, tokens=after)
    return msgspec.structs.replace(shorter, summary=made, pin=pin)


def _head(kept: KeptConversation, covers: int) -> tuple[Remark, ...]:
    """What a summary is made of: the one before, and what was said since then, as far as read."""
    said = kept.said(kept.covered, covers)
    earlier = remarks(kept.summary.text) if kept.summary is not None else []
    room = READ_MAX_BYTES
    head: list[Remark] = []
    for message in reversed(said):
        text = message.content.encode()[:room].decode(errors="ignore")
        room -= len(text.encode())
        head.append(Remark("user" if message.role == "user" else "assistant", text))
        if not room:
            break
    return (*earlier, *reversed(head))
