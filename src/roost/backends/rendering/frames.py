"""VALUE: what is said between a renderer and its child: length-prefixed frames of msgpack."""

from __future__ import annotations

import struct

import msgspec

from roost.core.request import ChatPrompt
from roost.text.endings import Rendered

LENGTH = struct.Struct(">I")


class Setup(msgspec.Struct, frozen=True):
    """The first frame: a model's template and the limits of the process that renders it.

    `cpu_s` is for one rendering; `memory_max_bytes` of address space is for the whole process.
    """

    template: str
    bos: str
    eos: str
    control_tokens: tuple[str, ...]
    output_max_chars: int
    memory_max_bytes: int
    cpu_s: int


class Ask(msgspec.Struct, frozen=True):
    """Render this prompt; `today` is an ISO date, and `exact` as in `Chat.render`."""

    prompt: ChatPrompt
    today: str
    exact: bool = False


class Reply(msgspec.Struct, frozen=True):
    """A rendered prompt, or a failure's reason, message and field."""

    rendered: Rendered | None = None
    reason: str = ""
    message: str = ""
    param: str | None = None


def pack(value: Setup | Ask | Reply) -> bytes:
    """Encode a value as a frame; text that is no UTF-8 is refused with `ValueError`."""
    data = msgspec.msgpack.encode(value)
    return LENGTH.pack(len(data)) + data
