"""SHELL: pasts made shorter while nobody talks: ahead of the next turn, or where KV is scarce.

A conversation is taken as a turn takes it, so its next turn waits; but not for a model: whoever
comes meanwhile has the summary that is being written replaced by the one that is there at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from roost.core.conversation import KeptConversation
from roost.fleet.conversations.compaction import Asked
from roost.gateway.request_ids import RequestIds

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.core.compacted import Trigger
    from roost.core.ids import ConversationKey, RequestId, TenantId
    from roost.errors import Failure
    from roost.fleet.conversations.effects import ConversationEffect
    from roost.fleet.conversations.registry import Conversations
    from roost.gateway.conversations.archive import Archive
    from roost.gateway.conversations.compactor import Compactor
    from roost.gateway.mind import Mind


class Background:
    """Compacts conversations that nobody talks in; `worked` is told what the registry asks for."""

    def __init__(
        self,
        mind: Mind,
        archive: Archive,
        compactor: Compactor,
        conversations: Conversations,
        worked: Callable[[list[ConversationEffect]], None],
    ) -> None:
        self._mind = mind
        self._archive = archive
        self._compactor = compactor
        self._conversations = conversations
        self._worked = worked
        self._new_id = RequestIds()

    def on_new(self) -> None:
        """One more conversation has begun: see whether the others leave room for its KV."""
        for key in self._conversations.largest(self._compactor.relief(self._kv_bytes)):
            self._take(key, "kv_pressure")

    def on_idle(self, key: ConversationKey) -> None:
        """A turn has ended: if its past is due, and a model is to sum it up, that is done now."""
        pin = self._conversations.pin(key)
        if pin is not None and self._compactor.is_ahead(pin.model, pin.tokens):
            self._take(key, "proactive")

    def _take(self, key: ConversationKey, trigger: Trigger) -> None:
        job = self._new_id()
        if self._conversations.on_work(key, job):
            self._archive.recall_whole(key, partial(self._begin, key, job, trigger))

    def _kv_bytes(self) -> int:
        """What they hold by exact counts of tokens and what each model's token takes."""
        offers = self._mind.coordinator.models()
        token_bytes = {offer.model: offer.kv_token_bytes or 0 for offer in offers}
        held = self._conversations.held().items()
        return sum(tokens * token_bytes.get(model, 0) for model, tokens in held)

    def _begin(
        self,
        key: ConversationKey,
        job: RequestId,
        trigger: Trigger,
        whole: tuple[TenantId, KeptConversation] | Failure | None,
    ) -> None:
        pin = self._conversations.pin(key)
        if not isinstance(whole, tuple) or pin is None:
            self._ended(key, job, None)
            return
        tenant, kept = whole
        asked = Asked(key, tenant, pin.model, kept, ctx=self._compactor.ctx(pin.model))
        self._compactor.work(job, asked, trigger, partial(self._ended, key, job))
        if self._conversations.is_awaited(key):
            self._compactor.hurry(key)

    def _ended(self, key: ConversationKey, job: RequestId, kept: KeptConversation | None) -> None:
        pin = self._conversations.pin(key)
        if pin is not None and kept is not None:
            pin = msgspec.structs.replace(pin, tokens=kept.pin.tokens)
        self._worked(self._conversations.on_ended(job, pin, self._mind.now_s))
