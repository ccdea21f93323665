"""VALUE: Ollama's chats, prompts, vectors and models."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.dialects.openai.envelope import Fact
from roost.dialects.shapes.openai import ChosenToken, Tool
from roost.dialects.shapes.shared import Count, Ids, Json, RoostWishes

KeepAlive: TypeAlias = int | float | str
Think: TypeAlias = bool | Literal["low", "medium", "high", "max"]


class OllamaCall(msgspec.Struct):
    """A call of an earlier turn: a function's `name` and its `arguments`, an object."""

    function: Json


class OllamaMessageSent(msgspec.Struct, omit_defaults=True):
    """One turn of a conversation; pictures are refused."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[OllamaCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    name: str | None = None
    images: list[str] | None = None


class OllamaShared(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What chats and prompts share; a stream is what comes where `stream` is not false."""

    model: str | None = None
    format: Literal["", "json"] | Json | None = None
    options: Json | None = None
    stream: bool | None = None
    keep_alive: KeepAlive | None = None
    think: Think | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    roost: RoostWishes | None = None


class OllamaChatRequest(OllamaShared, kw_only=True, omit_defaults=True):
    """A conversation that is to be gone on with; without messages the model is loaded."""

    messages: list[OllamaMessageSent] | None = None
    tools: list[Tool] | None = None
    truncate: bool | None = None


class OllamaGenerateRequest(OllamaShared, kw_only=True, omit_defaults=True):
    """A prompt that is to be answered; without one the model is loaded."""

    prompt: str | None = None
    system: str | None = None
    images: list[str] | None = None
    raw: bool | None = None
    template: str | None = None
    suffix: str | None = None
    context: Ids | None = None


class OllamaEmbedRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Texts that a vector is to be made of each."""

    model: str | None = None
    input: str | list[str] | None = None
    dimensions: int | None = None
    truncate: bool | None = None
    options: Json | None = None
    keep_alive: KeepAlive | None = None
    roost: RoostWishes | None = None


class OllamaEmbeddingsRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A text that a vector is to be made of, in the older way."""

    model: str | None = None
    prompt: str | None = None
    options: Json | None = None
    keep_alive: KeepAlive | None = None
    roost: RoostWishes | None = None


class OllamaShowRequest(msgspec.Struct, omit_defaults=True):
    """Which model is to be shown."""

    model: str | None = None
    name: str | None = None
    verbose: bool | None = None


class OllamaFunction(msgspec.Struct, forbid_unknown_fields=True):
    """What is called, and with what."""

    index: Count
    name: str
    arguments: Json


class OllamaToolCall(msgspec.Struct, forbid_unknown_fields=True):
    """A whole call."""

    id: str
    function: OllamaFunction


class OllamaAnswer(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What the model says."""

    role: Literal["assistant"]
    content: str
    thinking: str | None = None
    tool_calls: list[OllamaToolCall] | None = None


class OllamaLine(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every line has; durations are in nanoseconds, and left out where not measured."""

    model: str
    created_at: str
    done: bool
    done_reason: Literal["stop", "length", "load", "unload"] | None = None
    total_duration: Count | None = None
    load_duration: Count | None = None
    prompt_eval_count: Count | None = None
    prompt_eval_duration: Count | None = None
    eval_count: Count | None = None
    eval_duration: Count | None = None
    logprobs: list[ChosenToken] | None = None
    roost: dict[str, Fact] | None = None


class OllamaChatReply(OllamaLine, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The answer to a chat, whole or one line of it."""

    message: OllamaAnswer


class OllamaGenerateReply(OllamaLine, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The answer to a prompt, whole or one line of it."""

    response: str
    thinking: str | None = None


class OllamaEmbedReply(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Vectors in the order of the texts."""

    model: str
    embeddings: list[list[float]]
    total_duration: Count | None = None
    load_duration: Count | None = None
    prompt_eval_count: Count | None = None


class OllamaEmbeddingsReply(msgspec.Struct, forbid_unknown_fields=True):
    """The vector of one text."""

    embedding: list[float]


class OllamaDetails(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is known of a model's kind."""

    family: str | None = None
    families: list[str] | None = None


class OllamaModel(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A model that can be asked."""

    name: str
    model: str
    details: OllamaDetails
    modified_at: str | None = None
    size: Count | None = None
    digest: str | None = None


class OllamaTags(msgspec.Struct, forbid_unknown_fields=True):
    """The models that can be asked."""

    models: list[OllamaModel]


class OllamaLoaded(OllamaModel, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A model that is loaded."""

    size_vram: Count | None = None
    expires_at: str | None = None
    context_length: Count | None = None


class OllamaRunning(msgspec.Struct, forbid_unknown_fields=True):
    """What is loaded."""

    models: list[OllamaLoaded]


class OllamaShown(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One model."""

    details: OllamaDetails
    model_info: Json
    capabilities: list[str]
    modified_at: str | None = None


class OllamaVersion(msgspec.Struct, forbid_unknown_fields=True):
    """Which release of Ollama's API this is, and whose."""

    version: str
    roost: str


class OllamaError(msgspec.Struct, forbid_unknown_fields=True):
    """A failure, as Ollama's clients read it; also as the last line of a stream."""

    error: str
