"""MACHINE: what a slot can be filled from, and what of these a prompt begins like.

    a conversation   that was put aside and goes on: it is moved, and its file goes
    a copy of one    that another prompt begins like: it stays where it is, for whoever it is of
    a seed           a beginning that several share, which is there to be copied

All are a tenant's own. Each is taken, then read into a slot or put back.
"""

from __future__ import annotations

from typing import Protocol

from roost.core.ids import RuntimeId, TenantId
from roost.node.effects import Effect
from roost.node.states.parked import Parked, furthest, nearest
from roost.node.states.seeds import Seed
from roost.node.states.sessions import Sessions


class Source(Protocol):
    """One of the three."""

    @property
    def file(self) -> Parked | Seed:
        """Its file, and what is in it."""

    @property
    def least(self) -> int:
        """How many tokens it has to spare to be worth a move."""

    def take(self, now: float) -> None:
        """A slot is about to be filled from it: it is not forgotten meanwhile."""

    def read(self, slot: int) -> list[Effect]:
        """Fill a reserved slot from it."""

    def put_back(self) -> list[Effect]:
        """It was taken, and is not needed after all."""

    def on_read(self, *, ok: bool) -> list[Effect]:
        """The slot is filled, or the file was not as it was written."""


class Whole:
    """A conversation that goes on."""

    def __init__(self, sessions: Sessions, file: Parked) -> None:
        self.file = file
        self._sessions = sessions

    @property
    def least(self) -> int:
        """As for everything that is put aside."""
        return self._sessions.settings.tokens_min

    def take(self, _now: float) -> None:
        """It is found by nobody else any more."""
        self._sessions.take(self.file)

    def read(self, slot: int) -> list[Effect]:
        """Move it."""
        return [self.file.to_slot(slot)]

    def put_back(self) -> list[Effect]:
        """It is at rest again."""
        return self._sessions.put_back(self.file)

    def on_read(self, *, ok: bool) -> list[Effect]:
        """Its file goes anyway."""
        return self._sessions.on_restored(self.file.session, ok=ok)


class Copy:
    """A conversation that something else begins like."""

    def __init__(self, sessions: Sessions, file: Parked) -> None:
        self.file = file
        self._sessions = sessions

    @property
    def least(self) -> int:
        """As for every beginning that is not computed again."""
        return self._sessions.settings.shared_tokens_min

    def take(self, _now: float) -> None:
        """One reader more."""
        self._sessions.lend(self.file)

    def read(self, slot: int) -> list[Effect]:
        """Copy it."""
        return [self.file.to_slot(slot, copies=True)]

    def put_back(self) -> list[Effect]:
        """One reader less."""
        return self._sessions.give_back(self.file)

    def on_read(self, *, ok: bool) -> list[Effect]:
        """It stays for the conversation that it is."""
        return self._sessions.on_lent(self.file, ok=ok)


class Shared:
    """A seed."""

    def __init__(self, sessions: Sessions, file: Seed) -> None:
        self.file = file
        self._sessions = sessions

    @property
    def least(self) -> int:
        """As for everything that is put aside."""
        return self._sessions.settings.tokens_min

    def take(self, now: float) -> None:
        """One reader more."""
        self._sessions.seeds.take(self.file, now)

    def read(self, slot: int) -> list[Effect]:
        """Copy it."""
        return self._sessions.seeds.read(self.file, slot)

    def put_back(self) -> list[Effect]:
        """One reader less."""
        return self._sessions.seeds.put_back(self.file)

    def on_read(self, *, ok: bool) -> list[Effect]:
        """It stays for others."""
        return self._sessions.on_sown(self.file, ok=ok)


def found(
    sessions: Sessions, runtime: RuntimeId, tenant: TenantId, wanted: bytes, *, copies: bool
) -> list[tuple[Source, int]]:
    """What a prompt begins like, and for how many tokens; conversations of others, if `copies`.

    Those that spare most come first. Of those that spare the same: a seed, since it is still there
    afterwards, then a conversation that goes on.
    """
    those: list[tuple[Source, int]] = [
        (Shared(sessions, seed), shared)
        for seed, shared in sessions.seeds.alike(runtime, tenant, wanted)
    ]
    mine = [one for one in sessions if one.runtime == runtime and one.tenant == tenant]
    whole = furthest(mine, wanted)
    if whole is not None and not (copies and _is_others(sessions, *whole)):
        those.append((Whole(sessions, whole[0]), whole[1]))
    elif whole is not None and whole[0].lends:
        those.append((Copy(sessions, whole[0]), whole[1]))
    copy = nearest(mine, wanted, sessions.settings.shared_tokens_min) if copies else None
    if copy is not None:
        those.append((Copy(sessions, copy[0]), copy[1]))
    return sorted(those, key=lambda one: -one[1])


def _is_others(sessions: Sessions, one: Parked, shared: int) -> bool:
    """Whether a prompt that shares so much with a conversation is no next turn of it.

    What it does not go on with would be lost to whoever does, and there is enough to lend instead.
    """
    lost = one.content.known_tokens - shared
    return lost >= sessions.settings.tokens_min and shared >= sessions.settings.shared_tokens_min
