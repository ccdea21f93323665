"""VALUE: what a node and a hosted library say to each other, and how it is written.

One vocabulary with two spellings. A hosted child (`child`) is told and tells frames: four
bytes of length, then msgpack. A runner that somebody else has written (`command`) is told and tells
the same values as lines of JSON. Whatever is longer than `FRAME_MAX_BYTES` is a defect of whoever
wrote it, and the end of the conversation.

    child                          node
    Hello                     →
                              ←    Load
    Loading*                  →
    Loaded | Broken           →
                              ←    Tokenize
    Tokenized | Refused       →
                              ←    Embed Cancel?
    Embedded | Refused        →
                              ←    Run
    Began Filled* Said*       →
                              ←    Flow* Cancel?
    Over                      →

Every `Run` is answered by exactly one `Over`, after which its slot is free; every `Tokenize` by
`Tokenized` or `Refused`, and every `Embed` by `Embedded` or `Refused`, or not at all
where it was cancelled. Runs and questions are numbered in one series. A model that was loaded to
make vectors is given no `Run`, and one that was not no `Embed`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from roost.core.engine import Mode
from roost.core.events import TokenChoice
from roost.core.request import Sampling

VERSION = 1
LENGTH = struct.Struct(">I")
FRAME_MAX_BYTES = 32 * 1024 * 1024

Reason = Literal["stop", "length", "cancelled", "failed"]


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first word of a child: the version of this vocabulary that it speaks."""

    version: int


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Load a model: where it lies, and every option of the runtime.

    `ctx` is tokens per slot, 0 for as many as the model was trained for; `batch` the most prompt
    tokens between two frames; `threads` 0 is the library's own choice, as are `device` and `dtype`
    "". `mode` is what it is loaded for: `generate` or `embed`.
    """

    path: str
    ctx: int
    slots: int
    batch: int
    threads: int
    device: str = ""
    dtype: str = ""
    mode: Mode = "generate"


class Tokenize(msgspec.Struct, frozen=True, tag="tokenize"):
    """Tokenise these pieces one by one and join the results; no token is added.

    `special` says whether texts of special tokens become those tokens. More than `tokens_max` are
    only counted.
    """

    ask: int
    pieces: tuple[str, ...]
    special: bool
    tokens_max: int


class Embed(msgspec.Struct, frozen=True, tag="embed"):
    """Make a vector of length 1 for each of these inputs, in their order."""

    ask: int
    batch: tuple[tuple[int, ...], ...]


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Compute this prompt and go on from there, at most `limit` tokens.

    What the slot holds already may be used where `reuse` says so. The last `said` tokens are an
    answer's beginning, to be computed as decoding would have. Sampling is what a client asked
    for, checked for range; None leaves a number to the library.
    """

    run: int
    slot: int
    reuse: bool
    tokens: tuple[int, ...]
    limit: int
    sampling: Sampling = Sampling()
    top_logprobs: int | None = None
    ignore_eos: bool = False
    said: int = 0


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Stop this run after the step that is being computed; unknown numbers are no mistake.

    The number may be that of an `Embed`, which is passed over where its turn has not come yet.
    """

    run: int


class Flow(msgspec.Struct, frozen=True, tag="flow"):
    """Compute no more of this run while its reader is behind, or go on."""

    run: int
    paused: bool


class Loading(msgspec.Struct, frozen=True, tag="loading"):
    """This part of the model, 0..1, has been loaded."""

    part: float


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """The model is there. What it really has: tokens per slot, ids below `vocab_size`.

    `bos` is what a prompt begins with, "" or tokens; `max_token_bytes` the longest token's length,
    0 where nobody knows. `build` names library and version. `eos` is what goes behind an input that
    a vector is made of, where `bos` goes before it.
    """

    ctx: int
    vocab_size: int
    bos: tuple[int, ...] = ()
    max_token_bytes: int = 0
    build: str = ""
    eos: tuple[int, ...] = ()


class Broken(msgspec.Struct, frozen=True, tag="broken"):
    """The model cannot be loaded; `message` is for the person who wanted it.

    `memory` says that it might be, were there more memory.
    """

    message: str
    memory: bool = False


class Tokenized(msgspec.Struct, frozen=True, tag="tokenized"):
    """So many tokens, and which, unless they are more than was asked for."""

    ask: int
    count: int
    tokens: tuple[int, ...] = ()


class Embedded(msgspec.Struct, frozen=True, tag="embedded"):
    """The vectors, of `size` numbers each, as `core.vectors` writes them."""

    ask: int
    size: int
    data: bytes


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """What was asked cannot be answered."""

    ask: int
    message: str


class Began(msgspec.Struct, frozen=True, tag="began"):
    """The run has its slot; so many tokens of the prompt were there already."""

    run: int
    cached: int = 0


class Filled(msgspec.Struct, frozen=True, tag="filled"):
    """So many tokens of the prompt are computed."""

    run: int
    done: int


class Said(msgspec.Struct, frozen=True, tag="said", omit_defaults=True, gc=False):
    """One more token: its bytes, which may be half a character, or its text, or neither."""

    run: int
    token: int
    raw: bytes = b""
    text: str = ""
    choice: TokenChoice | None = None


class Work(msgspec.Struct, frozen=True):
    """What a run has cost: tokens computed, and the seconds the library took for them."""

    prefill_tokens: int = 0
    prefill_s: float = 0.0
    decode_tokens: int = 0
    decode_s: float = 0.0


class Over(msgspec.Struct, frozen=True, tag="over"):
    """The run has ended and its slot is free; `message` says why it failed."""

    run: int
    reason: Reason
    message: str = ""
    work: Work = Work()


Order: TypeAlias = Load | Tokenize | Embed | Run | Cancel | Flow
Step: TypeAlias = Began | Filled | Said
Word: TypeAlias = Hello | Loading | Loaded | Broken | Tokenized | Embedded | Refused | Step | Over

_encoder = msgspec.msgpack.Encoder()
_json = msgspec.json.Encoder()


def pack(value: Order | Word) -> bytes:
    """Write a frame."""
    data = _encoder.encode(value)
    return LENGTH.pack(len(data)) + data


def line(value: Order | Word) -> bytes:
    """Write a line."""
    return _json.encode(value) + b"\n"


class Splitter:
    """Cuts bytes that arrive in any pieces into frames; at most one frame of them is kept."""

    def __init__(self, max_bytes: int = FRAME_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = b""

    def push(self, data: bytes) -> list[bytes]:
        """Give the frames that are complete now; raises `ValueError` for one that is too long."""
        data = self._rest + data if self._rest else data
        frames, at = [], 0
        while len(data) - at >= LENGTH.size:
            (size,) = LENGTH.unpack_from(data, at)
            if size > self._max_bytes:
                raise ValueError("a frame is too long")
            end = at + LENGTH.size + size
            if end > len(data):
                break
            frames.append(data[at + LENGTH.size : end])
            at = end
        self._rest = data[at:]
        return frames


class Lines:
    """Cuts bytes that arrive in any pieces into lines; empty ones are none."""

    def __init__(self, max_bytes: int = FRAME_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest: list[bytes] = []
        self._kept = 0

    def push(self, data: bytes) -> list[bytes]:
        """Give the lines that are complete now; raises `ValueError` for one that is too long."""
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._rest, whole[0]))
            self._rest, self._kept = [], 0
        self._rest.append(rest)
        self._kept += len(rest)
        if max(self._kept, *map(len, whole), 0) > self._max_bytes:
            raise ValueError("a line is too long")
        return [one for one in whole if one.strip()]


class Spelling(NamedTuple):
    """A way to write the words, from the node's side."""

    write: Callable[[Order], bytes]
    splitter: Callable[[], Splitter | Lines]
    read: Callable[[bytes], Word]


FRAMES = Spelling(pack, Splitter, msgspec.msgpack.Decoder(Word).decode)
LINES = Spelling(line, Lines, msgspec.json.Decoder(Word).decode)
