"""DECIDER: what the model of the scripted backend is told to do, in its settings or in a prompt."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from roost.backends.scripted.prompts import last_text
from roost.errors import fail

MARK = "@script "
WAIT_MAX_MS = 60_000.0
_WaitMs: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=WAIT_MAX_MS)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model does.

    `pieces` is the answer, None repeats the last message. `delay_ms` passes before each piece,
    `prefill_ms_per_token` per prompt token that is not cached, `release_ms` until a cancelled slot
    is free, all at most `WAIT_MAX_MS`. After so many pieces it reports an error (`fail_after`),
    says nothing more (`hang_after`) or the runtime dies (`die_after`).
    """

    pieces: tuple[str, ...] | None = None
    delay_ms: _WaitMs = 0.0
    prefill_ms_per_token: _WaitMs = 0.0
    release_ms: _WaitMs = 0.0
    fail_after: _Count | None = None
    hang_after: _Count | None = None
    die_after: _Count | None = None


def script_in(tokens: tuple[int, ...], default: Script) -> Script:
    """Give the script of the last message, or `default`; raises `bad_request` where it is none."""
    lines = last_text(tokens).decode("utf-8", "replace").splitlines()
    line = next((line for line in lines if line.startswith(MARK)), None)
    if line is None:
        return default
    try:
        return msgspec.json.decode(line.removeprefix(MARK), type=Script)
    except msgspec.DecodeError as error:
        raise fail("bad_request", f"The script is wrong: {error}", param="messages") from None
