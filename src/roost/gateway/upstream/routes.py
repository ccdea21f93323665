"""VALUE: which addresses are passed on, and in which dialect their errors are told."""

from __future__ import annotations

import msgspec

from roost.gateway.failures import MESSAGES
from roost.gateway.upstream.dialect_events import ANTHROPIC, OPENAI, RESPONSES

REST = "{rest}"
MODELS = "/v1/models"


class ProxyRoute(msgspec.Struct, frozen=True):
    """One address. `leased` requests take a place on a server, the others only ask."""

    method: str
    pattern: str
    dialect: str = OPENAI
    leased: bool = True

    def path(self, rest: str, query: bytes) -> bytes:
        """Return the path for the server; `rest` is put in again, encoded."""
        path = self.pattern.removesuffix(REST).encode() + _encoded(rest)
        return path + b"?" + query if query else path


ROUTES = (
    ProxyRoute("POST", "/v1/chat/completions"),
    ProxyRoute("POST", "/v1/completions"),
    ProxyRoute("POST", "/v1/embeddings"),
    ProxyRoute("POST", MESSAGES, ANTHROPIC),
    ProxyRoute("POST", "/v1/responses", RESPONSES),
    ProxyRoute("GET", MODELS, leased=False),
    ProxyRoute("GET", f"{MODELS}/{REST}", leased=False),
)

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:@")


def _encoded(text: str) -> bytes:
    """Percent-encode a model name as one path segment, so that a `/` in it stays part of it."""
    return b"".join(bytes([b]) if b in _PLAIN else b"%%%02X" % b for b in text.encode())
