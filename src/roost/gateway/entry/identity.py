"""SHELL: which conversation a request belongs to, by whatever its client can say of it.

    x-roost-session      our own signed word, good at every gateway with the same keys
    conversation_id      a name, in the dialects that have one
    prompt_cache_key     what clients of OpenAI group their requests by
    session headers      of agents and routers, see `SESSION_HEADERS`
    the history          by its hash chain, which needs nothing of the client

The first two say where the KV is. The next two are hints: several live requests may carry the same
one, and they count only where the history is not known.
"""

from __future__ import annotations

import secrets
import time
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from roost.core.fence import Epoch, Life
from roost.core.ids import ConversationKey
from roost.core.pin import Pin
from roost.errors import fail
from roost.fleet.choice.affinity import alias
from roost.gateway.reading.asked import AFFINITY_HEADER, SESSION_HEADER, Twins, asked_affinity
from roost.gateway.reading.session_token import Session, SessionKey, Signer

if TYPE_CHECKING:
    from roost.core.request import Terms
    from roost.gateway.front.access import Fields
    from roost.gateway.turns.turn import Turn
    from roost.observe.logs import Log
    from roost.observe.metrics import Metrics

SESSION_HEADERS = (
    b"x-claude-code-session-id",
    b"session-id",
    b"thread-id",
    b"x-session-affinity",
    b"x-session-id",
    b"x-litellm-session-id",
    b"x-olla-session-id",
    b"x-sgl-routing-key",
    b"x-smg-routing-key",
)
HINT_MAX_CHARS = 256
LABEL_BYTES = 6


class IdentitySettings(msgspec.Struct, frozen=True):
    """`keys` sign and check tokens, the first one signs; without any, none are told.

    A token counts for `ttl_s`. `life` is this start of this gateway.
    """

    keys: tuple[SessionKey, ...] = ()
    ttl_s: float = 86_400.0
    life: Life = Life("", 0)


class Identity:
    """Reads what clients say, and tells them what to say next time."""

    def __init__(self, settings: IdentitySettings, metrics: Metrics, log: Log) -> None:
        self._settings = settings
        self._signer = Signer(settings.keys) if settings.keys else None
        self._metrics = metrics
        self._log = log
        # The same after a restart, where tokens are too.
        secret = settings.keys[0].secret if settings.keys else secrets.token_bytes(32)
        self._label_key = blake2b(secret, digest_size=32, person=b"log label").digest()

    def presented(self, terms: Terms, fields: Fields, said: Twins) -> Session | None:
        """Return what the token of a request says; None without one, and for one that is unfit.

        An unfit token is no error: it was a preference, keys change and tokens expire, and a client
        that kept one must not be locked out. Whoever needs the state says `require`.
        """
        header = fields.get(SESSION_HEADER)
        token = said.session if header is None else header.decode("latin-1").strip()
        if token is None or token == "" or self._signer is None:
            return None
        if not isinstance(token, str):
            raise fail("bad_request", "'roost.session' must be a string.", param="roost.session")
        found = self._signer.read(terms.tenant, token, time.time())
        if isinstance(found, Session):
            self._metrics("roost_session_tokens_total", "accepted").inc()
            return found
        self._metrics("roost_session_tokens_total", found).inc()
        self._log.debug("session_ignored", request=terms.request_id, reason=found)
        return None

    def bound(self, terms: Terms, session: Session | None, fields: Fields, said: Twins) -> Terms:
        """Add to the terms whose KV a request hopes for; `bad_request` for a wrong affinity."""
        require = asked_affinity(fields.get(AFFINITY_HEADER), said.affinity)
        claims = SESSION_HEADER in fields or bool(said.session)
        hint = said.cache_key or _hint(fields)
        return msgspec.structs.replace(
            terms,
            pin=terms.pin if session is None else session.pin,
            alias=alias(terms.tenant, hint) if hint else b"",
            require=require,
            has_past=terms.has_past or claims,
        )

    def token(self, turn: Turn, key: ConversationKey, *, named: bool) -> str | None:
        """Return the token for what a turn has computed; None before anybody knows where."""
        signer, settings = self._signer, self._settings
        if signer is None or turn.dispatch is None:
            return None
        started = turn.started
        tokens = started.prompt_tokens if started is not None else 0
        session = Session(
            key,
            Pin(turn.dispatch.node, turn.request.model, tokens),
            # The counter comes with sessions that nodes own; the life is known already.
            Epoch(settings.life.generation, 0, settings.life.gateway),
            int(time.time() + settings.ttl_s),
            named,
        )
        return signer.sign(turn.terms.tenant, session)

    def label(self, key: ConversationKey) -> str:
        """Name a conversation in logs: without the secret it tells nothing, not even a guess."""
        return blake2b(key, digest_size=LABEL_BYTES, key=self._label_key).hexdigest()

    def ours(self, session: Session) -> bool:
        """Whether it was this gateway that told it, in this life or an earlier one."""
        return session.epoch.gateway == self._settings.life.gateway


def talk_of(terms: Terms, session: Session | None) -> ConversationKey | None:
    """Return by what key a conversation without a name goes on; None where nothing tells."""
    if session is not None:
        return session.key
    if terms.alias:
        return ConversationKey(terms.alias)
    return ConversationKey(terms.chain[:2][-1]) if terms.chain else None


def _hint(fields: Fields) -> str:
    for name in SESSION_HEADERS:
        value = fields.get(name, b"").strip()
        if 0 < len(value) <= HINT_MAX_CHARS:
            return f"{name.decode()} {value.decode('latin-1')}"
    return ""
