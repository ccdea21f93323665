"""VALUE: everything that the registry of conversations can ask for."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.core.ids import ConversationKey, RequestId
from roost.errors import Failure


class Begin(msgspec.Struct, frozen=True):
    """This turn's time has come: no other turn of its conversation runs until it has ended."""

    key: ConversationKey
    request: RequestId


class Refuse(msgspec.Struct, frozen=True):
    """This turn is not served; it is out of the registry already."""

    request: RequestId
    failure: Failure


class Gone(msgspec.Struct, frozen=True):
    """A conversation's place here has ended; what was said in it is not touched."""

    key: ConversationKey
    why: Literal["idle", "crowded"]


ConversationEffect: TypeAlias = Begin | Refuse | Gone
