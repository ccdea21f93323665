"""SHELL: what is kept of named conversations, for whoever they belong to: list, show, remove.

A tenant sees and removes its own. An operator also lists and removes others', and reads nobody's:
what was said is between a tenant and its models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import msgspec

from roost.core.conversation import KeptConversation
from roost.core.ids import TenantId
from roost.errors import Failure
from roost.fleet.conversations.registry import conversation_key
from roost.gateway.desk.endpoints import ADMIN, NOT_ADMIN
from roost.gateway.front.rendering import JSON_BODY

if TYPE_CHECKING:
    from roost.fleet.conversations.registry import Conversations
    from roost.gateway.conversations.archive import Archive
    from roost.gateway.routes import Call, Routes

NO_CONVERSATION = Failure("not_found", "Nothing is kept of a conversation of this name.")
BUSY = Failure(
    "conversation_busy",
    "A turn of this conversation runs or waits. Remove it when that has ended.",
    retry_after_s=5,
)


class ConversationViews:
    """Endpoints over the archive and the registry."""

    def __init__(self, archive: Archive, conversations: Conversations) -> None:
        self._archive = archive
        self._conversations = conversations

    def add_to(self, routes: Routes) -> None:
        """Put these endpoints into the table."""
        routes.add("GET", "/roost/v1/conversations", self.list)
        routes.add("GET", "/roost/v1/conversations/{rest}", self.show)
        routes.add("DELETE", "/roost/v1/conversations/{rest}", self.remove)

    def list(self, call: Call) -> None:
        """GET /roost/v1/conversations: whose they are, where, how long; no word of them."""

        def told(found: object) -> None:
            if isinstance(found, Failure):
                call.exchange.fail(found)
            else:
                body = msgspec.json.encode({"conversations": found})
                call.exchange.reply(200, JSON_BODY, body)

        self._archive.list(None if call.role == ADMIN else call.tenant, told)

    def show(self, call: Call) -> None:
        """GET /roost/v1/conversations/{name}: what was said in one of the caller's own."""

        def told(kept: KeptConversation | Failure | None) -> None:
            if isinstance(kept, KeptConversation):
                call.exchange.reply(200, JSON_BODY, msgspec.json.encode(kept))
            else:
                call.exchange.fail(kept or NO_CONVERSATION)

        self._archive.recall(conversation_key(call.tenant, call.rest), told, whole=True)

    def remove(self, call: Call) -> None:
        """DELETE /roost/v1/conversations/{name}: no word of it is left; `?tenant=` for others'."""
        tenant = _tenant(call)
        if tenant is None:
            call.exchange.fail(NOT_ADMIN)
            return
        key = conversation_key(tenant, call.rest)

        def told(found: object) -> None:
            if found is True:
                call.exchange.reply(200, JSON_BODY, b'{"removed":true}')
            else:
                call.exchange.fail(found if isinstance(found, Failure) else NO_CONVERSATION)

        if self._conversations.on_forgotten(key):
            self._archive.forget(key, told)
        else:
            call.exchange.fail(BUSY)


def _tenant(call: Call) -> TenantId | None:
    """Whose conversation is meant; None where the caller may not mean it."""
    named = parse_qs(call.exchange.query.decode("latin-1")).get("tenant")
    if named is None or named[0] == call.tenant:
        return call.tenant
    return TenantId(named[0]) if call.role == ADMIN else None
