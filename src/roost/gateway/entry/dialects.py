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

    `manner` is how its streams go over HTTP, `mode` what a model has to be for.
    """

    name: str
    api: Api
    id_prefix: str
    stream_voice: Callable[[Choice], StreamVoice]
    whole_voice: Callable[[Choice], WholeVoice]
    ends: Callable[[Choice], Ends] | None = None
    manner: Manner = EVENTS
    mode: Mode = "generate"


CHAT = Dialect("openai", "chat", "chatcmpl-", ChatStream, ChatBody, chat_ends)
COMPLETIONS = Dialect(
    "openai", "completions", "cmpl-", CompletionStream, CompletionBody, completion_ends
)
MESSAGES = Dialect("anthropic", "messages", anthropic_reply.ID_PREFIX, MessageStream, MessageBody)
COUNT = Dialect("anthropic", "count_tokens", anthropic_reply.ID_PREFIX, MessageStream, CountBody)
RESPONSES = Dialect("responses", "responses", response.ID_PREFIX, ResponseStream, ResponseBody)
_LINES = Manner(tuple(JSON_LINES), timed=True)
OLLAMA_CHAT = Dialect(
    "ollama",
    "ollama_chat",
    ollama_reply.ID_PREFIX,
    partial(OllamaStream, shape="chat"),
    partial(OllamaBody, shape="chat"),
    manner=_LINES,
)
OLLAMA_GENERATE = Dialect(
    "ollama",
    "ollama_generate",
    ollama_reply.ID_PREFIX,
    partial(OllamaStream, shape="generate"),
    partial(OllamaBody, shape="generate"),
    manner=_LINES,
)
# Neither is ever streamed; what is told of a failure is told as to every client of OpenAI's API.
EMBEDDINGS = Dialect("openai", "embeddings", "embd-", ChatStream, EmbeddingsBody, mode="embed")
RERANK = Dialect("openai", "rerank", "rerank-", ChatStream, RerankBody, mode="rank")
OLLAMA_EMBED = Dialect(
    "ollama",
    "ollama_embed",
    ollama_reply.ID_PREFIX,
    partial(OllamaStream, shape="generate"),
    partial(OllamaVectors, shape="embed"),
    manner=_LINES,
    mode="embed",
)
OLLAMA_EMBEDDINGS = Dialect(
    "ollama",
    "ollama_embeddings",
    ollama_reply.ID_PREFIX,
    partial(OllamaStream, shape="generate"),
    partial(OllamaVectors, shape="embeddings"),
    manner=_LINES,
    mode="embed",
)
# What is told of a prompt is never streamed either.
TOKENIZE = Dialect("tokens", "tokenize", "tok-", ChatStream, partial(PromptTold, asked="tokens"))
DETOKENIZE = Dialect("tokens", "detokenize", "tok-", ChatStream, partial(PromptTold, asked="text"))
TEMPLATE = Dialect(
    "tokens", "apply_template", "tok-", ChatStream, partial(PromptTold, asked="template")
)
