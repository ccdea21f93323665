"""Every reply and every streamed event of every API has the shape that is described, and its place.

The shapes have no field too many, so that one that is not described does not pass; what is read is
held to the readers' own lists of fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple, Protocol

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import (
    Delta,
    Failed,
    Finished,
    Started,
    StreamEvent,
    TokenChoice,
    TokenLogprob,
    Usage,
)
from roost.core.reading import Reading
from roost.dialects import rerank, tokens
from roost.dialects.anthropic import request as anthropic_request
from roost.dialects.anthropic.reply import MessageBody, MessageStream
from roost.dialects.ollama import embed as ollama_embed
from roost.dialects.ollama import request as ollama_request
from roost.dialects.ollama.reply import OllamaBody, OllamaStream
from roost.dialects.openai import chat as openai_chat
from roost.dialects.openai import completions as openai_completions
from roost.dialects.openai import embeddings as openai_embeddings
from roost.dialects.openai.chat_reply import ChatBody, ChatStream
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.completions_reply import CompletionBody, CompletionStream
from roost.dialects.openai.messages import FIELDS as CHAT_MESSAGE
from roost.dialects.openai.options import ReplyOptions
from roost.dialects.responses import request as responses_request
from roost.dialects.responses.reply import ResponseBody, ResponseStream
from roost.dialects.shapes import anthropic, ollama, openai, others, responses
from roost.dialects.shapes.shared import OpenAIError, RoostWishes
from roost.dialects.system1 import infer
from roost.dialects.system1.infer_reply import InferStream
from roost.errors import Failure
from roost.gateway.reading.asked import Twins
from roost.text.sse import SseEvent, SseParser

READING = Reading(
    think=("<think>", "</think>"), call=("<tool_call>", "</tool_call>"), tools=("weather",)
)
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "naïve 😀 歪"}}</tool_call>'
USAGE = Usage(10, 4, 7, 2)
FACTS: dict[str, str | int | float | bool | None] = {"node": "n1", "total_ns": 9, "load_ns": 2}


class Voice(Protocol):
    """What stream voices have in common."""

    def head(self) -> bytes:
        """Begin."""
        ...

    def event(self, event: StreamEvent) -> bytes:
        """Say an event."""
        ...

    def comment(self, text: str) -> bytes:
        """Give a sign of life."""
        ...

    def roost_extra(self, facts: dict[str, str | int | float | bool | None]) -> None:
        """Know facts for the end."""
        ...


class Api(NamedTuple):
    """How an API streams: its voice, the type of its events, what each is called, their order."""

    voice: Callable[[Choice], Voice]
    type: object
    name: Callable[[object], str]
    grammar: str
    lines: bool = False


def _chat(event: object) -> str:
    if isinstance(event, openai.ChatCompletionChunk):
        if not event.choices:
            return "usage"
        [choice] = event.choices
        assert (choice.delta.role is None) or event.choices[0].finish_reason is None
        return "role" if choice.delta.role else "end" if choice.finish_reason else "delta"
    return "error" if isinstance(event, OpenAIError) else str(event)


def _completion(event: object) -> str:
    if isinstance(event, openai.Completion):
        if not event.choices:
            return "usage"
        return "end" if event.choices[0].finish_reason else "text"
    return "error" if isinstance(event, OpenAIError) else str(event)


def _tag(event: object) -> str:
    tag = type(event).__struct_config__.tag  # type: ignore[attr-defined]
    return str(tag)


def _line(event: object) -> str:
    if isinstance(event, ollama.OllamaError):
        return "error"
    assert isinstance(event, ollama.OllamaLine)
    return "done" if event.done else "line"


APIS = {
    "chat": Api(
        ChatStream,
        openai.ChatCompletionChunk | OpenAIError,
        _chat,
        r"(role (delta )*)?(end (usage )?\[DONE\] |error )",
    ),
    "completions": Api(
        CompletionStream,
        openai.Completion | OpenAIError,
        _completion,
        r"(text )*(end (usage )?\[DONE\] |error )",
    ),
    "messages": Api(
        MessageStream,
        anthropic.MessageEvent,
        _tag,
        r"(ping )*(message_start (content_block_start (content_block_delta )*"
        r"content_block_stop )*)?"
        r"(content_block_start (content_block_delta )*)?"
        r"(message_delta message_stop |error )",
    ),
    "responses": Api(
        ResponseStream,
        responses.ResponseEvent,
        lambda event: _tag(event).removeprefix("response."),
        r"created in_progress (output_item.added (content_part.added )?"
        r"(\S+\.delta )*\S+\.done (content_part.done )?output_item.done )*"
        r"(completed |incomplete |failed )",
    ),
    "ollama_chat": Api(
        lambda choice: OllamaStream(choice, "chat"),
        ollama.OllamaChatReply | ollama.OllamaError,
        _line,
        r"(line )*(done |error )",
        lines=True,
    ),
    "ollama_generate": Api(
        lambda choice: OllamaStream(choice, "generate"),
        ollama.OllamaGenerateReply | ollama.OllamaError,
        _line,
        r"(line )*(done |error )",
        lines=True,
    ),
    "infer": Api(
        lambda _: InferStream(),
        others.InferToken | others.InferEnd,
        lambda event: type(event).__name__,
        r"(InferToken )*InferEnd ",
    ),
}
"""`messages` may stop within a block where a failure ends it."""


def data_of(data: bytes, *, lines: bool) -> Iterator[bytes]:
    """Cut a stream into what clients parse."""
    if lines:
        assert data.endswith(b"\n")
        yield from data.splitlines()
        return
    parser = SseParser(1 << 20)
    for item in parser.push(data):
        assert isinstance(item, SseEvent)
        yield item.data
    assert not parser.finish()


def _decoded(data: bytes, kind: object) -> object:
    """Decode one event; msgspec knows no choice of objects without tags, so each is tried."""
    if data == b"[DONE]":
        return "[DONE]"
    try:
        return msgspec.json.decode(data, type=kind)
    except TypeError:
        found = json.loads(data)
        first, second = kind.__args__  # type: ignore[attr-defined]
        use_second = "error" in found or "finished" in found
        return msgspec.convert(found, second if use_second else first)


_ANSWERS = st.sampled_from(
    [
        "Hello, naïve 😀 歪 שלום",
        "<think>one\ntwo</think>\n\nthree",
        f"<think>so</think>{CALL}",
        f"first {CALL} then",
        "",
        "<think>never closed",
        f"{CALL}{CALL}",
        '<tool_call>{"name": "nobody"}</tool_call>',
    ]
)
_ENDS = st.sampled_from(
    [
        Finished("stop", USAGE),
        Finished("length", USAGE),
        Finished("stop", USAGE, "END"),
        Failed(Failure("runtime_died", "it is gone\u2028")),
    ]
)
_OPTIONS = st.builds(
    ReplyOptions,
    stream=st.just(True),
    include_usage=st.booleans(),
    logprobs=st.booleans(),
    thoughts=st.booleans(),
)


def deltas(answer: str, cuts: list[int], *, logprobs: bool) -> Iterator[Delta]:
    """Cut an answer into pieces, each of them one token."""
    bounds = sorted({0, *(min(cut, len(answer)) for cut in cuts), len(answer)})
    for begin, end in pairwise(bounds):
        text = answer[begin:end]
        token = TokenLogprob(text, -0.5, text.encode())
        yield Delta(text, logprobs=(TokenChoice(token, (token,)),) if logprobs else ())


@pytest.mark.parametrize("name", list(APIS))
@given(_ANSWERS, st.lists(st.integers(0, 120), max_size=5), _ENDS, _OPTIONS)
def test_every_event_has_its_shape_and_its_place(
    name: str, answer: str, cuts: list[int], end: StreamEvent, options: ReplyOptions
) -> None:
    """However an answer is cut, whatever is in it, and however it ends."""
    api = APIS[name]
    is_text = name in ("completions", "infer")
    choice = Choice("id-abc", 1_700_000_000, "m", options)
    voice = api.voice(choice)
    data = voice.comment("waiting") + voice.event(Started(10, 4, 0, None if is_text else READING))
    data += voice.head()
    data += b"".join(map(voice.event, deltas(answer, cuts, logprobs=options.logprobs)))
    voice.roost_extra(FACTS)
    data += voice.event(end) + voice.event(end)
    events = [_decoded(one, api.type) for one in data_of(data, lines=api.lines)]
    told = "".join(f"{api.name(event)} " for event in events)
    assert re.fullmatch(api.grammar, told), told


BODIES: dict[str, tuple[Callable[[Choice], object], type]] = {
    "chat": (ChatBody, openai.ChatCompletion),
    "completions": (CompletionBody, openai.Completion),
    "messages": (MessageBody, anthropic.MessageReply),
    "responses": (ResponseBody, responses.Response),
    "ollama_chat": (lambda choice: OllamaBody(choice, "chat"), ollama.OllamaChatReply),
    "ollama_generate": (
        lambda choice: OllamaBody(choice, "generate"),
        ollama.OllamaGenerateReply,
    ),
}


@pytest.mark.parametrize("name", list(BODIES))
@pytest.mark.parametrize("logprobs", [True, False])
@pytest.mark.parametrize("answer", ["Hello", f"<think>so</think>I look. {CALL}", ""])
def test_every_whole_reply_has_its_shape(name: str, answer: str, *, logprobs: bool) -> None:
    """With all that may be in one."""
    make, kind = BODIES[name]
    choice = Choice("id-abc", 1_700_000_000, "m", ReplyOptions(logprobs=logprobs))
    voice = make(choice)
    assert hasattr(voice, "event")
    reading = None if name == "completions" else READING
    voice.event(Started(10, 4, 0, reading, digest="abc"))
    for delta in deltas(answer, [3], logprobs=logprobs):
        voice.event(delta)
    voice.roost_extra(FACTS)  # type: ignore[attr-defined]
    msgspec.json.decode(voice.event(Finished("stop", USAGE)), type=kind)


KNOWN = [
    (openai.ChatCompletionRequest, openai_chat.FIELDS),
    (openai.CompletionRequest, openai_completions.FIELDS),
    (openai.EmbeddingRequest, openai_embeddings.FIELDS),
    (openai.RerankRequest, rerank.FIELDS),
    (openai.ChatMessage, CHAT_MESSAGE),
    (anthropic.MessageRequest, anthropic_request.FIELDS),
    (responses.ResponseRequest, responses_request.FIELDS),
    (ollama.OllamaChatRequest, ollama_request.CHAT_FIELDS),
    (ollama.OllamaGenerateRequest, ollama_request.GENERATE_FIELDS),
    (ollama.OllamaEmbedRequest, ollama_embed.EMBED_FIELDS | {"truncate"}),
    (ollama.OllamaEmbeddingsRequest, ollama_embed.EMBEDDINGS_FIELDS),
    (others.TokenizeRequest, tokens.TOKENIZE_FIELDS | tokens.CHAT_FIELDS),
    (others.DetokenizeRequest, tokens.SHARED_FIELDS | {"tokens"}),
    (others.TemplateRequest, tokens.SHARED_FIELDS | tokens.CHAT_FIELDS),
    (others.InferRequest, infer.FIELDS),
]


@pytest.mark.parametrize(("shape", "known"), KNOWN, ids=[shape.__name__ for shape, _ in KNOWN])
def test_what_is_read_is_what_is_described(
    shape: type[msgspec.Struct], known: frozenset[str]
) -> None:
    """Field by field: a reader that learns one has it described."""
    assert set(shape.__struct_encode_fields__) == known


def test_wishes_are_those_that_are_read() -> None:
    """All twins of headers, under the names that they have in a body."""
    read = {name.rstrip("_") for name in Twins.__struct_fields__} - {"cache_key", "salt"}
    assert set(RoostWishes.__struct_encode_fields__) >= read
