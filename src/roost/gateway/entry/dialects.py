"""WIRING: how each API is spoken: which body is read how, and by which voices it is answered."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from roost.core.engine import Mode
from roost.dialects.anthropic import reply as anthropic_reply
from roost.dialects.anthropic.reply import CountBody, MessageBody, MessageStream
from roost.dialects.ollama import reply as ollama_reply
from roost.dialects.ollama.embed import OllamaVectors
from roost.dialects.ollama.reply import OllamaBody, OllamaStream
from roost.dialects.openai.chat_reply import ChatBody, ChatStream, chat_ends
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.completions_reply import (
    CompletionBody,
    CompletionStream,
    completion_ends,
)
from roost.dialects.openai.embeddings import EmbeddingsBody
from roost.dialects.rerank import RerankBody
from roost.dialects.responses import response
from roost.dialects.responses.reply import ResponseBody, ResponseStream
from roost.dialects.tokens import PromptTold
from roost.gateway.front.rendering import JSON_LINES
from roost.gateway.reading.parsing import Api
from roost.gateway.turns.chorus import Ends
from roost.gateway.turns.scribe import EVENTS, Manner, StreamVoice, WholeVoice


class Dialect(msgspec.Struct, frozen=True):
    """How one API is spoken: the voices of a choice, and how a reply of several ends, if it may.

    `path` is where it is asked for, `api` by whom its bodies are read. `manner` is how its streams
    go over HTTP, `mode` what a model has to be for. `trims` is whether chats that are too long may
    be trimmed: clients of the other APIs shorten theirs by themselves when they are refused.
    """

    name: str
    api: Api
    path: str
    id_prefix: str
    stream_voice: Callable[[Choice], StreamVoice]
    whole_voice: Callable[[Choice], WholeVoice]
    ends: Callable[[Choice], Ends] | None = None
    manner: Manner = EVENTS
    mode: Mode = "generate"
    trims: bool = False


_openai = partial(Dialect, "openai")
_anthropic = partial(
    Dialect, "anthropic", id_prefix=anthropic_reply.ID_PREFIX, stream_voice=MessageStream
)
_ollama = partial(
    Dialect,
    "ollama",
    id_prefix=ollama_reply.ID_PREFIX,
    stream_voice=partial(OllamaStream, shape="generate"),
    manner=Manner(tuple(JSON_LINES), timed=True),
)
_tokens = partial(Dialect, "tokens", id_prefix="tok-", stream_voice=ChatStream)

DIALECTS = (
    _openai(
        *("chat", "/v1/chat/completions", "chatcmpl-", ChatStream, ChatBody, chat_ends), trims=True
    ),
    _openai(
        *("completions", "/v1/completions", "cmpl-"),
        *(CompletionStream, CompletionBody, completion_ends),
    ),
    _anthropic("messages", "/v1/messages", whole_voice=MessageBody),
    _anthropic("count_tokens", "/v1/messages/count_tokens", whole_voice=lambda _: CountBody()),
    Dialect(
        "responses", "responses", "/v1/responses", response.ID_PREFIX, ResponseStream, ResponseBody
    ),
    # Neither is ever streamed; what is told of a failure is told as to every client of OpenAI's.
    _openai("embeddings", "/v1/embeddings", "embd-", ChatStream, EmbeddingsBody, mode="embed"),
    _openai("rerank", "/v1/rerank", "rerank-", ChatStream, RerankBody, mode="rank"),
    _ollama(
        *("ollama_chat", "/api/chat"),
        stream_voice=partial(OllamaStream, shape="chat"),
        whole_voice=partial(OllamaBody, shape="chat"),
        trims=True,
    ),
    _ollama("ollama_generate", "/api/generate", whole_voice=partial(OllamaBody, shape="generate")),
    _ollama(
        *("ollama_embed", "/api/embed"),
        whole_voice=partial(OllamaVectors, shape="embed"),
        mode="embed",
    ),
    _ollama(
        *("ollama_embeddings", "/api/embeddings"),
        whole_voice=partial(OllamaVectors, shape="embeddings"),
        mode="embed",
    ),
    # What is told of a prompt is never streamed either.
    _tokens("tokenize", "/v1/tokenize", whole_voice=partial(PromptTold, asked="tokens")),
    _tokens("detokenize", "/v1/detokenize", whole_voice=partial(PromptTold, asked="text")),
    _tokens(
        "apply_template", "/v1/apply-template", whole_voice=partial(PromptTold, asked="template")
    ),
)
"""Every API that a model is asked through; each path also without its `/v1`."""
