"""VALUE: a response that can be asked for again, and gone on from."""

from __future__ import annotations

import msgspec

from roost.core.ids import TenantId
from roost.core.request import Message


class KeptResponse(msgspec.Struct, frozen=True):
    """One response of a tenant: what was asked and answered in it, and the body that tells it.

    It goes on from the response `previous`, "" for none. Instructions are no part of what was
    asked.
    """

    id: str
    tenant: TenantId
    previous: str
    asked: tuple[Message, ...]
    answered: tuple[Message, ...]
    body: bytes
    at_unix_s: float
