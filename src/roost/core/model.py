"""VALUE: what is known about a model on disk and about the runtime somebody wants of it."""

from __future__ import annotations

import hashlib

import msgspec

from roost.core.engine import Engine, Mode
from roost.core.ids import ModelId
from roost.core.kv import KvShape


class ModelFile(msgspec.Struct, frozen=True):
    """One file of a model as it was when its digest, `sha256:…`, was computed.

    `path` is absolute. Size and `mtime_ns` tell, without reading it, whether it has changed since.
    """

    path: str
    size_bytes: int
    digest: str
    mtime_ns: int


class Widths(msgspec.Struct, frozen=True):
    """How many numbers a token is between layers, and in their feed-forward part."""

    embedding: int
    feed_forward: int


class Manifest(msgspec.Struct, frozen=True):
    """One installed model.

    `files` are all that the model lies in, shards in their order; `path` is the first (or only) of
    them and `size_bytes` what they have together. `digest` is `sha256:…` of the only file, or of
    the list of their digests.
    `ctx_train` is the context length in tokens the model was trained for.
    `chat_template` is None where the model has none (a base model): chat is then refused.
    `control_tokens` are the texts of tokens that steer the model; user text must never become one.
    `max_token_bytes` is the longest token's length: a text has at least bytes / that tokens.
    `kv` is what its layers keep of each token, None where nobody knows.
    `source` says where it came from (`pypi:…`, `hf:…`, `file:…`), `licence` what its source states.
    `tasks` are what it is for: `chat`, `completion`, `embeddings`, `rerank`.
    `weight_bytes` are its tensors' alone; `widths` is None where they are not one pair of numbers.
    `remote` says that somebody else's machine runs it: its context costs nothing here.
    `vector_sizes` are how many numbers its vectors have, and fewer that they may be cut to; ()
    where nobody knows.
    """

    id: ModelId
    path: str
    size_bytes: int
    digest: str
    format: str = "gguf"
    architecture: str = ""
    ctx_train: int = 0
    vocab_size: int = 0
    chat_template: str | None = None
    bos: str = ""
    eos: str = ""
    add_bos: bool = False
    control_tokens: tuple[str, ...] = ()
    max_token_bytes: int = 0
    kv: KvShape | None = None
    source: str = ""
    licence: str = ""
    created_unix_s: int = 0
    files: tuple[ModelFile, ...] = ()
    tasks: tuple[str, ...] = ()
    weight_bytes: int = 0
    widths: Widths | None = None
    remote: bool = False
    vector_sizes: tuple[int, ...] = ()


class RuntimeOptions(msgspec.Struct, frozen=True):
    """Every option that changes a runtime; part of its key.

    `ctx` is tokens per slot, `batch` the most prompt tokens in one prefill step,
    `threads` 0 means the backend's own choice, as do `device` and `dtype` "". `engine` is for
    backends that have such options. `mode` is what the runtime is for.
    """

    ctx: int = 4096
    slots: int = 4
    batch: int = 256
    threads: int = 0
    engine: Engine = Engine()
    device: str = ""
    dtype: str = ""
    mode: Mode = "generate"


def ctx_within(asked: int, most: int) -> int:
    """Give the tokens of a context: as many as are `asked` for, and not above `most`.

    Who asks for 0 wants the most, which is 0 where nobody knows it.
    """
    return min(asked or most, most or asked)


class RuntimeKey(msgspec.Struct, frozen=True):
    """Identity of a runtime: two equal keys share one, two different keys never do.

    `digest` is of the model's files, `reading` of what was read from them beside weights: template,
    tokeniser and the like. `options` are those that take effect, and not those that were asked for.
    """

    backend: str
    model: ModelId
    digest: str
    options: RuntimeOptions
    reading: str = ""

    @property
    def name(self) -> str:
        """32 digits that are equal for equal keys alone."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:32]


class Capabilities(msgspec.Struct, frozen=True):
    """What a backend claims; the conformance suite tests what is claimed and reports the rest."""

    chat: bool = False
    completion: bool = False
    embeddings: bool = False
    rerank: bool = False
    streaming: bool = False
    concurrent_streams: bool = False
    cancel: bool = False
    sessions: bool = False
    state: bool = False
    prefix_cache: bool = False
    json_schema: bool = False
    grammar: bool = False
    logit_bias: bool = False
    tools: bool = False
    logprobs: bool = False
    vision: bool = False
    exact_token_count: bool = False
    replay: bool = False
    seed: bool = False

    @property
    def claimed(self) -> tuple[str, ...]:
        """Names of what is claimed."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name))
