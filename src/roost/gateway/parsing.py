"""DECIDER: a body becomes a request, with the hash chain of its conversation.

The same function runs on the event loop for ordinary bodies and in a child for large ones.
"""

from __future__ import annotations

import hashlib
from typing import Literal, Protocol, TypeAlias

import msgspec

from roost.core.ids import ModelId, TenantId
from roost.core.request import ChatPrompt, GenerateRequest, TextPrompt, TokensPrompt
from roost.dialects.openai_chat import read_chat
from roost.dialects.openai_completions import read_completion
from roost.dialects.openai_options import ReplyOptions, Translated
from roost.errors import Failure, RoostError, fail
from roost.fleet.affinity import chain
from roost.gateway.asked import Belonging

Api: TypeAlias = Literal["chat", "completions"]


class Reader(Protocol):
    """How a dialect reads a body."""

    def __call__(self, body: bytes, *, strict: bool) -> Translated:
        """Translate it, or raise `RoostError`."""
        ...


READERS: dict[Api, Reader] = {"chat": read_chat, "completions": read_completion}


class Job(msgspec.Struct, frozen=True):
    """A body to be read. `default_model` is for requests that name none; "" if there is no such.

    `keyed` asks for a fingerprint, for a request that is to run once.
    """

    api: Api
    body: bytes
    tenant: TenantId
    default_model: str
    strict: bool
    keyed: bool = False


class Parsed(msgspec.Struct, frozen=True, tag="parsed"):
    """What a body asks for; `chain` is empty for raw prompts.

    `prompt_bytes` is the length of its text, `prompt_tokens` its exact length where it came as
    token ids, 0 otherwise. `timeout_ms`, `class_`, `reattach_s` and `on_loss` are what the object
    `roost` has of them.
    `fingerprint` is a hash of route and body where one was asked for. `belonging` is what the
    body says of its conversation.
    """

    request: GenerateRequest
    options: ReplyOptions
    chain: tuple[bytes, ...]
    prompt_bytes: int
    prompt_tokens: int
    ignored: tuple[str, ...]
    timeout_ms: object
    class_: object
    reattach_s: object = None
    on_loss: object = None
    fingerprint: bytes = b""
    belonging: Belonging = Belonging()


class Unreadable(msgspec.Struct, frozen=True, tag="unreadable"):
    """Why a body is refused."""

    failure: Failure


Outcome: TypeAlias = Parsed | Unreadable


def parse(job: Job) -> Outcome:
    """Read a body; nothing is raised for what a client sent."""
    try:
        sent = READERS[job.api](job.body, strict=job.strict)
        request = _with_model(sent.request, job.default_model)
    except RoostError as error:
        return Unreadable(error.failure)
    hashes: tuple[bytes, ...] = ()
    size_bytes = tokens = 0
    match request.prompt:
        case ChatPrompt(messages):
            hashes = chain(job.tenant, request.model, messages)
            size_bytes = sum(len(message.content.encode()) for message in messages)
        case TextPrompt(text):
            size_bytes = len(text.encode())
        case TokensPrompt(ids):
            tokens = len(ids)
    return Parsed(
        request=request,
        options=sent.options,
        chain=hashes,
        prompt_bytes=size_bytes,
        prompt_tokens=tokens,
        ignored=sent.ignored,
        timeout_ms=sent.roost.get("timeout_ms"),
        class_=sent.roost.get("class"),
        reattach_s=sent.roost.get("reattach_s"),
        on_loss=sent.roost.get("on_loss"),
        fingerprint=_fingerprint(job) if job.keyed else b"",
        belonging=Belonging(sent.roost.get("session"), sent.roost.get("affinity"), sent.cache_key),
    )


def _fingerprint(job: Job) -> bytes:
    """Hash what makes a request the same as another one; an API has one method and one route."""
    return hashlib.blake2b(job.api.encode() + b"\0" + job.body, digest_size=32).digest()


def _with_model(request: GenerateRequest, default: str) -> GenerateRequest:
    if request.model:
        return request
    if not default:
        message = "Name a model; GET /v1/models lists what is served here."
        raise fail("bad_request", message, param="model")
    return msgspec.structs.replace(request, model=ModelId(default))
