"""DECIDER: who may ask: Host against an allow-list, Origin against the same list, then the key.

A page in a browser can make the browser talk to a service on this machine. The Host check stops a
name that was pointed here (DNS rebinding), the Origin check stops a page from elsewhere that writes
without caring for the answer (CSRF).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import TypeAlias

import msgspec

from roost.core.allowance import Account
from roost.core.hosts import is_host
from roost.core.ids import TenantId
from roost.core.request import ServiceClass
from roost.errors import Failure, fail
from roost.gateway.front.router import normalise

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, not bound to
OPEN_PATHS = frozenset({"/", "/health", "/ready"})
PREFLIGHT_AGE_S = b"600"
ANY_ORIGIN = "*"
_NAME = re.compile(r"[a-z0-9._-]+")
_METHODS = b"GET, HEAD, POST, DELETE, OPTIONS"
_OF, _WHAT = (b"limit", b"remaining", b"reset"), (b"requests", b"tokens")
EXPOSED = b", ".join(
    (
        *(b"x-request-id", b"request-id", b"x-roost-request-id", b"x-roost-session"),
        *(b"x-roost-node", b"x-roost-placement", b"x-roost-cached-tokens", b"x-roost-reattach-s"),
        *(b"idempotency-replayed", b"location", b"retry-after", b"x-should-retry"),
        *(b"x-ratelimit-%b-%b" % (of, what) for of in _OF for what in _WHAT),
        *(b"anthropic-ratelimit-%b-%b" % (what, of) for of in _OF for what in _WHAT),
    )
)
"""What a page may read of a reply, besides the few headers that any page may."""

Fields: TypeAlias = Mapping[bytes, bytes]
"""Header fields by lower-case name; of a repeated field the last."""


class Principal(msgspec.Struct, frozen=True):
    """Who asks. `tenant` None stands for the client's address: nobody needs a key here.

    `weight` is the tenant's share against others; `class_` the best class of service it may have.
    `account` is where its limits are counted, None where it has shown no key. `shares_as` is whose
    KV it may have, "" for that of its tenant alone.
    """

    tenant: TenantId | None = None
    role: str = "client"
    weight: float = 1.0
    class_: ServiceClass = "interactive"
    account: Account | None = None
    shares_as: TenantId = TenantId("")


Authorise: TypeAlias = Callable[[Fields], Principal | Failure]
"""The key check: header fields to a principal, or `unauthorized`/`forbidden`."""

ANYONE = Principal()


def anyone(_fields: Fields) -> Principal:
    """Accept any or no key: the rule while no key exists."""
    return ANYONE


def presented_key(fields: Fields) -> bytes | None:
    """Return the key of `Authorization: Bearer` or, failing that, of `x-api-key`."""
    scheme, _, key = fields.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and key.strip():
        return key.strip()
    return fields.get(b"x-api-key", b"").strip() or None


def by_digest(digests: Mapping[str, Principal]) -> Authorise:
    """Build a key check from SHA-256 hex digests; every digest is compared, in constant time."""

    def authorise(fields: Fields) -> Principal | Failure:
        key = presented_key(fields)
        if key is None:
            return Failure("unauthorized", "An API key is needed: send Authorization: Bearer KEY.")
        digest = hashlib.sha256(key).hexdigest()
        found = [who for known, who in digests.items() if hmac.compare_digest(known, digest)]
        return found[0] if found else Failure("unauthorized", "This API key is not known.")

    return authorise


class Allowed(msgspec.Struct, frozen=True):
    """Names under which this server may be addressed, lower case, without port or brackets.

    `own_addresses` also accepts the address a connection came in on, for a listener on all of them;
    an address cannot be rebound, only a name can.
    """

    names: frozenset[str]
    own_addresses: bool = False


def allowed(bound_host: str, extra: Iterable[str] = ()) -> Allowed:
    """Build the allow-list: loopback, the host that is bound and what the operator adds.

    Raises `bad_request` for what is none of those.
    """
    named = set(map(_listed, extra))
    bound = bound_host.lower().strip("[]")
    wildcard = bound in WILDCARDS
    return Allowed(LOOPBACK | named | (set() if wildcard else {bound}), wildcard)


def _listed(text: str) -> str:
    name = host_name(text.encode("utf-8", "replace")) or ""
    if not (_is_address(name) or (_NAME.fullmatch(name) and is_host(name))):
        message = (
            f"allowed_hosts: {text!r} is no name of a host: write it as app.example.org, without "
            "a scheme, path or wildcard, and letters beyond ASCII as xn--…."
        )
        raise fail("bad_request", message, param="allowed_hosts")
    return name


def trusted(texts: Collection[str]) -> frozenset[str]:
    """Read the addresses of proxies, as connections have them; raises `bad_request`.

    A network or a name would never be equal to the address of a connection.
    """
    for text in texts:
        if not _is_address(text):
            message = (
                f"trusted_proxies: {text!r} is no address: write each proxy as 10.0.0.2 or "
                "2001:db8::2, no network and no name."
            )
            raise fail("bad_request", message, param="trusted_proxies")
    # One of IPv4 in one of IPv6 keeps its dots, as the system writes it.
    return frozenset(text.lower() if "." in text else str(ip_address(text)) for text in texts)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=256)
def host_name(authority: bytes) -> str | None:
    """Strip the port and brackets of `host:port`; None where it is no such thing."""
    if not authority or not authority.isascii() or b"@" in authority:
        return None
    text = authority.decode("ascii").lower()
    if text.startswith("["):
        name, closed, port = text[1:].partition("]")
        port = port.removeprefix(":") if port.startswith(":") or not port else "?"
        return name if closed and (not port or port.isdigit()) else None
    if text.count(":") > 1:
        return text
    name, _, port = text.partition(":")
    return name.rstrip(".") if name and (not port or port.isdigit()) else None


@lru_cache(maxsize=256)
def origin_name(origin: bytes) -> str | None:
    """Return the host of an Origin such as `http://localhost:3000`; None for `null`."""
    scheme, found, authority = origin.partition(b"://")
    return host_name(authority) if found and scheme.lower() in {b"http", b"https"} else None


def origins(texts: Iterable[str]) -> frozenset[str]:
    """Read origins of pages, as `https://app.example.org`, or `*` for all; raises `bad_request`."""
    read = set()
    for text in texts:
        origin = text.strip().lower()
        # `origin_name` takes what browsers send; a person may also write a path, or forget a part.
        whole = origin_name(origin.encode("utf-8", "replace")) is not None
        if origin != ANY_ORIGIN and (not whole or set(origin.partition("://")[2]) & set("/?#")):
            message = (
                f"cors.origins: {text!r} is no origin: write https://HOST or https://HOST:PORT."
            )
            raise fail("bad_request", message, param="cors.origins")
        read.add(origin)
    return frozenset(read)


class Asked(msgspec.Struct, frozen=True):
    """What access depends on. `local` is the address the connection came in on."""

    method: str
    path: str
    fields: Fields
    local: str = ""


class Gate(msgspec.Struct):
    """The rules of one listener.

    Pages of `origins` may call it and read the answers, beside those of names that are allowed;
    these are the one thing that may change while it listens.
    """

    allowed: Allowed
    authorise: Authorise = anyone
    origins: frozenset[str] = frozenset()

    def check(self, asked: Asked, admit: Authorise | None = None) -> Principal | Failure:
        """Decide about a request: Host and Origin first (`forbidden`), then the key check.

        With `admit` it is that which decides, and no key.
        """
        stranger = self.check_source(asked)
        if stranger is not None:
            return stranger
        if asked.method == "OPTIONS" or self._open(asked):
            return ANYONE
        return (admit or self.authorise)(asked.fields)

    def check_source(self, asked: Asked) -> Failure | None:
        """Decide by Host and Origin alone, which is all that a browser cannot lie about."""
        host = asked.fields.get(b"host")
        if host is not None and not self._knows(host_name(host), asked.local):
            return Failure(
                "forbidden", "This server does not answer to this Host. See --allowed-hosts."
            )
        origin = asked.fields.get(b"origin")
        if origin is None or asked.method in {"GET", "HEAD"}:
            return None
        if self._trusts(origin, asked.local):
            return None
        return Failure(
            "forbidden", "Pages of this Origin may not call this server. See --cors-origins."
        )

    def cors(self, asked: Asked) -> tuple[tuple[bytes, bytes], ...]:
        """Return the reply headers that let a page of an allowed origin read the answer."""
        origin = asked.fields.get(b"origin")
        if origin is None or not self._trusts(origin, asked.local):
            return ()
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", EXPOSED),
            (b"vary", b"origin"),
        )

    def preflight(self, asked: Asked) -> tuple[tuple[bytes, bytes], ...]:
        """Return the reply headers of an OPTIONS request that passed `check`."""
        cors = self.cors(asked)
        if not cors:
            return ((b"allow", _METHODS),)
        wanted = asked.fields.get(b"access-control-request-headers", b"")
        # Browsers ask this before a page from elsewhere may reach a machine of a private network.
        private = asked.fields.get(b"access-control-request-private-network") == b"true"
        return (
            *cors,
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", wanted or b"authorization, content-type"),
            (b"access-control-max-age", PREFLIGHT_AGE_S),
            *(((b"access-control-allow-private-network", b"true"),) if private else ()),
        )

    def _trusts(self, origin: bytes, local: str) -> bool:
        """Whether pages of this origin may call and read; `null` never may."""
        name = origin_name(origin)
        if name is None:
            return False
        listed = ANY_ORIGIN in self.origins or origin.decode("latin-1").lower() in self.origins
        return listed or self._knows(name, local)

    def _knows(self, name: str | None, local: str) -> bool:
        if name is None:
            return False
        return name in self.allowed.names or (self.allowed.own_addresses and name == local)

    def _open(self, asked: Asked) -> bool:
        return asked.method in {"GET", "HEAD"} and normalise(asked.path) in OPEN_PATHS
