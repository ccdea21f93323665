"""DECIDER: session tokens: where a conversation's KV is, said by us, signed, and told to clients.

    rs1.<key id>.<payload>.<mac>          base64url without padding

A token says everything itself, so any gateway with the same keys understands it without asking
anybody. The tenant is signed and not in it: nobody else's token can be read, and none tells who
its owner is.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from roost.core.fence import Epoch
from roost.core.ids import ConversationKey, TenantId
from roost.core.pin import Pin

VERSION = "rs1"
MAC_BYTES = 16
TOKEN_MAX_CHARS = 1024
SECRET_LEAST_BYTES = 16
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")

Unfit: TypeAlias = Literal["malformed", "unknown_key", "forged", "expired"]
"""Why a token says nothing; one of another tenant is forged, as it cannot be told from that."""


class SessionKey(msgspec.Struct, frozen=True):
    """A key to sign and check with; `id` is in every token that it signed."""

    id: str
    secret: bytes

    def __post_init__(self) -> None:
        if not _KEY_ID.fullmatch(self.id):
            raise ValueError("a key's id is 1 to 32 letters, digits, '-' or '_'")
        if len(self.secret) < SECRET_LEAST_BYTES:
            raise ValueError(f"a key has at least {SECRET_LEAST_BYTES} bytes")


class Session(msgspec.Struct, frozen=True, array_like=True):
    """What a token says: which conversation, where its KV was, and until when that counts.

    `named` means that the key is that of a conversation with a name, whose past a gateway keeps;
    `epoch` is the owner that computed last.
    """

    key: ConversationKey
    pin: Pin
    epoch: Epoch
    expires_unix_s: int
    named: bool = False


class Signer:
    """Signs with the first key and understands them all, so that keys can be changed in turn."""

    def __init__(self, keys: Sequence[SessionKey]) -> None:
        if not keys:
            raise ValueError("a signer needs a key")
        self._first = keys[0]
        self._keys = {key.id: key for key in keys}
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Session).decode

    def sign(self, tenant: TenantId, session: Session) -> str:
        """Make the token that tells this tenant about a session."""
        payload = self._encode(session)
        mac = _mac(self._first, tenant, payload)
        return f"{VERSION}.{self._first.id}.{_text(payload)}.{_text(mac)}"

    def read(self, tenant: TenantId, token: str, now_unix_s: float) -> Session | Unfit:
        """Understand a token of this tenant's; nothing in it is believed before the signature."""
        parts = token.split(".")
        if len(token) > TOKEN_MAX_CHARS or len(parts) != 4 or parts[0] != VERSION:
            return "malformed"
        key = self._keys.get(parts[1])
        if key is None:
            return "unknown_key"
        payload, mac = _bytes(parts[2]), _bytes(parts[3])
        if payload is None or mac is None:
            return "malformed"
        if not hmac.compare_digest(mac, _mac(key, tenant, payload)):
            return "forged"
        try:
            session = self._decode(payload)
        except msgspec.MsgspecError:
            # Ours, but of a version that said other things.
            return "malformed"
        return "expired" if now_unix_s >= session.expires_unix_s else session


def _mac(key: SessionKey, tenant: TenantId, payload: bytes) -> bytes:
    raw = tenant.encode("utf-8", "surrogatepass")
    # The length goes first: no byte can move between the tenant and the payload.
    signed = len(raw).to_bytes(4, "big") + raw + payload
    return hmac.new(key.secret, signed, hashlib.sha256).digest()[:MAC_BYTES]


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes | None:
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
    # One token has one spelling: the decoder also takes bits and letters that mean nothing.
    return raw if _text(raw) == text else None
