"""VALUE: what of a gateway's addresses there is in front of servers, and where the rest is.

A test holds this to the routes. What clients send and get at the addresses that are passed on is
their servers' business: the types are those of the APIs, as far as servers keep to them.
"""

from __future__ import annotations

import msgspec

from roost.gateway.desk.addresses import ADDRESSES, Address
from roost.gateway.upstream.fleet_view import UpstreamFleet

FLEET = "/roost/v1/fleet"
SERVED = frozenset(
    {
        *(("POST", f"/v1/{name}") for name in ("chat/completions", "completions", "embeddings")),
        *(("POST", f"/v1/{name}") for name in ("messages", "responses")),
        *(("GET", path) for path in ("/v1/models", "/v1/models/{model}")),
        *(("GET", path) for path in ("/health", "/ready", "/metrics", "/openapi.json", FLEET)),
        *(("GET", path) for path in ("/", "/docs", "/web/{file}")),
        *(("POST", f"/roost/v1/nodes/{{node}}/{verb}") for verb in ("drain", "undrain")),
    }
)


def _here(one: Address) -> Address:
    return msgspec.structs.replace(one, reply=UpstreamFleet) if one.path == FLEET else one


IN_FRONT: tuple[Address, ...] = tuple(
    _here(one) for one in ADDRESSES if (one.method, one.path) in SERVED
)
