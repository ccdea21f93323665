"""MACHINE: where a conversation's KV probably is, for clients that send nothing but their history.

A conversation is known by a running hash over (tenant, model, messages). Only whole histories are
remembered: the one a request brought, once its first token shows that it sits in a KV cache, and
that one plus the answer, which is how the next turn will begin. Shorter prefixes are never
entered, so two conversations that share a system prompt share no entry, and the tenant is part
of the first hash, so tenants never match each other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from roost.core.ids import ModelId, NodeId, RuntimeId, TenantId
from roost.core.request import Message, Tool

HASH_BYTES = 16


class Home(msgspec.Struct, frozen=True, gc=False):
    """The node, and if known the runtime, that last computed a conversation of `tokens` tokens.

    `sure_tokens` of them were prompt then, and begin the next turn as they are; an answer may not.
    """

    node: NodeId
    runtime: RuntimeId | None
    tokens: int = 0
    sure_tokens: int = 0


def chain(
    tenant: TenantId, model: ModelId, messages: Iterable[Message], tools: Iterable[Tool] = ()
) -> tuple[bytes, ...]:
    """Hash every prefix: entry i is for (tenant, model, tools, messages[: i + 1])."""
    told = (part for tool in tools for part in (tool.name, tool.description, tool.parameters))
    running = _digest(tenant, model, *told)
    hashes: list[bytes] = []
    for message in messages:
        running = _extend(running, message.role, message.name or "", spoken(message))
        hashes.append(running)
    return tuple(hashes)


def spoken(message: Message) -> str:
    """Give what a message says as its client may bring it back: without thoughts and without ids.

    White space in arguments does not count, since some clients parse them and write them anew.
    """
    if not message.calls:
        return message.content
    calls = (f"\0{call.name}\0{''.join(call.arguments.split())}" for call in message.calls)
    return message.content.strip() + "".join(calls)


def alias(tenant: TenantId, hint: str) -> bytes:
    """Hash what a client calls its conversation, where that is a hint and not a name."""
    return _digest("alias", tenant, hint)


def extend(last: bytes, role: str, content: str) -> bytes:
    """Hash a conversation with one more message, as `chain` would."""
    return _extend(last, role, "", content)


def _extend(last: bytes, role: str, name: str, content: str) -> bytes:
    # Outer white space is dropped because clients trim answers before they send them back.
    return _digest(last.hex(), role, name, content.strip())


def _digest(*parts: str) -> bytes:
    # Each part is preceded by its length: ("ab", "c") and ("a", "bc") must differ.
    state = blake2b(digest_size=HASH_BYTES)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(8, "big"))
        state.update(raw)
    return state.digest()


class Affinity:
    """Bounded table from hash to home; least recently used entries go first."""

    def __init__(self, entries: int, ttl_s: float) -> None:
        self._limit = entries
        self._ttl_s = ttl_s
        self._homes: OrderedDict[bytes, tuple[Home, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._homes)

    def remember(self, key: bytes, home: Home, now: float) -> None:
        """Note that this history's KV is at `home`; replaces what was known."""
        self._homes[key] = (home, now + self._ttl_s)
        self._homes.move_to_end(key)
        while len(self._homes) > self._limit:
            self._homes.popitem(last=False)

    def lookup(self, hashes: tuple[bytes, ...], now: float) -> Home | None:
        """The home of the longest known prefix of this conversation."""
        for key in reversed(hashes):
            entry = self._homes.get(key)
            if entry is None:
                continue
            home, expires_s = entry
            if now < expires_s:
                self._homes.move_to_end(key)
                return home
            del self._homes[key]
        return None
