"""MACHINE: the slots of one runtime that are being written to files, and who waits for that.

What a slot holds is written before somebody else gets the slot, before its runtime goes, or for
others whose prompts begin with it. Until that has been answered it is in no slot and in no file
that could be read. Whoever would have to compute it again waits: for the conversation that it is,
or for a copy. Each waits once, and a write is answered within the shell's bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from roost.core.ids import SessionId
from roost.node.effects import StreamKey
from roost.node.slots import Content, common_tokens
from roost.node.states.parked import goes_on
from roost.node.stream import Stream

Purpose: TypeAlias = Literal["move", "pack", "copy"]
"""The slot is somebody's next, its content is put aside for its own sake, or others want it too."""


@dataclass(frozen=True, slots=True)
class Write:
    """What is being written, since when, what for, and who waits for it."""

    content: Content
    since_s: float
    purpose: Purpose
    waiting: set[StreamKey] = field(default_factory=set)


class Writes:
    """All that are under way, by what they are written as."""

    def __init__(self) -> None:
        self._all: dict[SessionId, Write] = {}
        self._has_waited: set[StreamKey] = set()

    @property
    def outlast(self) -> bool:
        """Whether any is written although no stream is about to get its slot."""
        return any(write.purpose != "move" for write in self._all.values())

    def __contains__(self, stream: Stream) -> bool:
        """Whether this stream waits for one."""
        return any(stream.key in write.waiting for write in self._all.values())

    def may_wait(self, stream: Stream) -> bool:
        """Whether this stream has not waited yet."""
        return stream.key not in self._has_waited

    def packed(self, slot: int) -> SessionId | None:
        """What the content of this slot is being put aside as, for its own sake."""
        packs = ((name, one) for name, one in self._all.items() if one.purpose == "pack")
        return next((name for name, one in packs if one.content.slot == slot), None)

    def begin(
        self, session: SessionId, content: Content, now: float, purpose: Purpose = "move"
    ) -> None:
        """A slot is being written."""
        self._all[session] = Write(content, now, purpose)

    def wait(self, stream: Stream, session: SessionId) -> None:
        """Have a stream wait for this one."""
        self._has_waited.add(stream.key)
        self._all[session].waiting.add(stream.key)

    def of(self, stream: Stream, wanted: bytes, least: int, *, copies: bool) -> SessionId | None:
        """One that has so many tokens of a stream's prompt, and is its tenant's own.

        Unless it `copies`, it is of use only to a prompt that goes on with it.
        """
        for session, write in self._all.items():
            known, is_own = write.content.known, write.content.tenant == stream.tenant
            is_of_use = copies or goes_on(known, wanted)
            if is_own and is_of_use and common_tokens(known, wanted) >= least:
                return session
        return None

    def end(self, session: SessionId) -> Write | None:
        """This one has been answered; nobody waits for it any more."""
        return self._all.pop(session, None)

    def quit(self, stream: Stream) -> None:
        """This stream is in no line any more."""
        self._has_waited.discard(stream.key)
        for write in self._all.values():
            write.waiting.discard(stream.key)
