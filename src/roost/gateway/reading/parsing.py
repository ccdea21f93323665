"""DECIDER: a body becomes a request, with the hash chain of its conversation.

The same function runs on the event loop for ordinary bodies and in a child for large ones.
"""

from __future__ import annotations

import hashlib
from typing import Literal, Protocol, TypeAlias

import msgspec

from roost.core.ids import ModelId, TenantId
from roost.core.request import (
    ChatPrompt,
    EmbedPrompt,
    GenerateRequest,
    Prompt,
    RankPrompt,
    TextPrompt,
    TokensPrompt,
)
from roost.dialects.anthropic.request import read_count, read_message
from roost.dialects.ollama.embed import read_ollama_embed, read_ollama_embeddings
from roost.dialects.ollama.request import (
    read_ollama_chat,
    read_ollama_generate,
    untagged,
)
from roost.dialects.openai.chat import read_chat
from roost.dialects.openai.completions import read_completion
from roost.dialects.openai.embeddings import read_embeddings
from roost.dialects.openai.options import ReplyOptions, Translated
from roost.dialects.rerank import read_rerank
from roost.dialects.responses.request import read_response
from roost.dialects.tokens import read_detokenize, read_template, read_tokenize
from roost.errors import Failure, RoostError, fail
from roost.fleet.choice.affinity import chain, spoken
from roost.gateway.reading.asked import Twins, twins

Api: TypeAlias = Literal[
    "chat",
    "completions",
    "messages",
    "count_tokens",
    "responses",
    "ollama_chat",
    "ollama_generate",
    "embeddings",
    "ollama_embed",
    "ollama_embeddings",
    "tokenize",
    "detokenize",
    "apply_template",
    "rerank",
]

TOKEN_BYTES = 4
"""As many bytes of text as a token stands for, about."""


class Reader(Protocol):
    """How a dialect reads a body."""

    def __call__(self, body: bytes, *, strict: bool) -> Translated:
        """Translate it, or raise `RoostError`."""
        ...


READERS: dict[Api, Reader] = {
    "chat": read_chat,
    "completions": read_completion,
    "messages": read_message,
    "count_tokens": read_count,
    "responses": read_response,
    "ollama_chat": read_ollama_chat,
    "ollama_generate": read_ollama_generate,
    "embeddings": read_embeddings,
    "ollama_embed": read_ollama_embed,
    "ollama_embeddings": read_ollama_embeddings,
    "tokenize": read_tokenize,
    "detokenize": read_detokenize,
    "apply_template": read_template,
    "rerank": read_rerank,
}

TAGGING: frozenset[Api] = frozenset(
    {"ollama_chat", "ollama_generate", "ollama_embed", "ollama_embeddings"}
)
"""APIs whose clients add a tag to names that have none."""


class Job(msgspec.Struct, frozen=True):
    """A body to be read. `sharer` is whose KV its prompt may share.

    `default_model` is for requests that name none; "" if there is no such. `keyed` asks for a
    fingerprint, for a request that is to run once. `aliases` are other names of models.
    """

    api: Api
    body: bytes
    sharer: TenantId
    default_model: str
    strict: bool
    keyed: bool = False
    aliases: dict[str, str] = {}


class Measured(msgspec.Struct, frozen=True):
    """A prompt as routing sees it; `chain` is empty for raw prompts.

    `size_bytes` is the length of its text, `tokens` its exact length where it came as token ids,
    0 otherwise.
    """

    chain: tuple[bytes, ...] = ()
    size_bytes: int = 0
    tokens: int = 0


class Parsed(msgspec.Struct, frozen=True, tag="parsed"):
    """What a body asks for; `fingerprint` is a hash of it where one was asked for.

    `more` are prompts beside the request's own.
    """

    request: GenerateRequest
    options: ReplyOptions
    prompt: Measured
    ignored: tuple[str, ...]
    twins: Twins = Twins()
    fingerprint: bytes = b""
    more: tuple[Prompt, ...] = ()


class Unreadable(msgspec.Struct, frozen=True, tag="unreadable"):
    """Why a body is refused."""

    failure: Failure


Outcome: TypeAlias = Parsed | Unreadable


def parse(job: Job) -> Outcome:
    """Read a body; nothing is raised for what a client sent."""
    try:
        sent = READERS[job.api](job.body, strict=job.strict)
        request = _with_model(sent.request, job)
    except RoostError as error:
        return Unreadable(error.failure)
    prompt = measured(request.prompt, job.sharer, request.model)
    if request.counts:
        # Nothing of it will be in any KV cache: nobody is to look for it there, now or later.
        prompt = msgspec.structs.replace(prompt, chain=())
    return Parsed(
        request=request,
        options=sent.options,
        prompt=prompt,
        ignored=sent.ignored,
        twins=twins(sent.roost, sent.cache_key),
        fingerprint=fingerprint(job.api, job.body) if job.keyed else b"",
        more=sent.more,
    )


def measured(prompt: Prompt, sharer: TenantId, model: ModelId) -> Measured:
    """Measure a prompt for this model, and hash what its KV can be shared by, by whom."""
    match prompt:
        case ChatPrompt(messages, offer):
            tools = offer.tools if offer is not None else ()
            size_bytes = sum(len(spoken(message).encode()) for message in messages)
            size_bytes += sum(len(one.description) + len(one.parameters) for one in tools)
            return Measured(chain(sharer, model, messages, tools), size_bytes)
        case TextPrompt(text):
            return Measured(size_bytes=len(text.encode()))
        case TokensPrompt(ids):
            return Measured(tokens=len(ids))
        case EmbedPrompt(inputs):
            # Each of them has to fit a context, and not all of them together: no exact length.
            return Measured(size_bytes=sum(map(_size_bytes, inputs)))
        case RankPrompt(query, documents):
            asked = _size_bytes(query)
            return Measured(size_bytes=sum(asked + _size_bytes(one) for one in documents))


def _size_bytes(one: str | tuple[int, ...]) -> int:
    return len(one.encode()) if isinstance(one, str) else TOKEN_BYTES * len(one)


def fingerprint(api: str, body: bytes) -> bytes:
    """Hash what makes a request the same as another one; an API has one method and one route."""
    return hashlib.blake2b(api.encode() + b"\0" + body, digest_size=32).digest()


def of_real_model(request: GenerateRequest, aliases: dict[str, str]) -> GenerateRequest:
    """Replace another name of a model by its own."""
    real = aliases.get(request.model)
    return request if real is None else msgspec.structs.replace(request, model=ModelId(real))


def _with_model(request: GenerateRequest, job: Job) -> GenerateRequest:
    if request.model and job.api in TAGGING:
        model = ModelId(untagged(request.model, job.aliases))
        request = msgspec.structs.replace(request, model=model)
    if request.model:
        return of_real_model(request, job.aliases)
    if not job.default_model:
        message = "Name a model; GET /v1/models lists what is served here."
        raise fail("bad_request", message, param="model")
    return msgspec.structs.replace(request, model=ModelId(job.default_model))
