"""VALUE: everything that compaction can ask for; a shell performs each."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from roost.core.compacted import Trigger
from roost.core.conversation import KeptConversation, Summary
from roost.core.ids import ConversationKey, ModelId, RequestId, TenantId
from roost.core.request import ChatPrompt


class Summarise(msgspec.Struct, frozen=True):
    """Have the model write a summary, admitted like any other request, of the lowest class.

    `on_summary` is told what came of it. Nothing of it belongs to the conversation.
    """

    job: RequestId
    tenant: TenantId
    model: ModelId
    prompt: ChatPrompt
    max_tokens: int
    timeout_s: float


class Stop(msgspec.Struct, frozen=True):
    """Nobody waits for this job's summary any more."""

    job: RequestId


class Keep(msgspec.Struct, frozen=True):
    """Note with what the model goes on; what was said stays as it is.

    Whoever is refused this has lost nothing: the turn that waits goes on from it all the same, and
    the next one makes it again.
    """

    job: RequestId
    key: ConversationKey
    summary: Summary
    tokens: int


class Undo(msgspec.Struct, frozen=True):
    """Note that the model goes on as before this job, with this summary or with all there is."""

    job: RequestId
    key: ConversationKey
    summary: Summary | None
    tokens: int


class Go(msgspec.Struct, frozen=True):
    """Go on from this past; for work in the background, it is done."""

    job: RequestId
    kept: KeptConversation


class GiveUp(msgspec.Struct, frozen=True):
    """It cannot be made short enough: what the node has said of it stands."""

    job: RequestId


class Told(msgspec.Struct, frozen=True):
    """A compaction has come to its end: `outcome` is `model`, `extractive`, `cut`, or why not.

    `model` and `extractive` say whose summary it is, `cut` that there is none. `verdict` is what
    was thought of the model's, "" where it was not asked.
    """

    job: RequestId
    key: ConversationKey
    trigger: Trigger
    outcome: str
    verdict: str
    dropped_tokens: int
    took_s: float


CompactionEffect: TypeAlias = Summarise | Stop | Keep | Undo | Go | GiveUp | Told
