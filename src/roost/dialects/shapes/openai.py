"""VALUE: OpenAI's chats, completions, embeddings and models."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from roost.dialects.openai.envelope import Fact
from roost.dialects.shapes.shared import (
    Count,
    Ids,
    Json,
    Penalty,
    Probability,
    RoostWishes,
    Temperature,
)

Finish: TypeAlias = Literal["stop", "length", "tool_calls"]
Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=-1)]
Choices: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=16)]
Stop: TypeAlias = str | Annotated[list[str], msgspec.Meta(max_length=16)]


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A part of a message; other parts than text are refused."""

    text: str


class FunctionSent(msgspec.Struct, omit_defaults=True):
    """A call that a model has made; `arguments` is JSON in a text."""

    name: str
    arguments: str = "{}"


class CallSent(msgspec.Struct, omit_defaults=True):
    """A call of an earlier turn."""

    function: FunctionSent
    id: str = ""
    type: Literal["function"] = "function"


class ChatMessage(msgspec.Struct, omit_defaults=True):
    """One turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[CallSent] | None = None
    function_call: FunctionSent | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class Function(msgspec.Struct, omit_defaults=True):
    """What a model may call; `parameters` is a JSON Schema."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    description: str | None = None
    parameters: Json | None = None


class Tool(msgspec.Struct, omit_defaults=True):
    """A tool; types that others run are left out."""

    function: Function
    type: Literal["function"] = "function"


class StreamOptions(msgspec.Struct, omit_defaults=True):
    """How a stream ends."""

    include_usage: bool | None = None


class Drawn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What both generating APIs share."""

    model: str | None = None
    max_tokens: Limit | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1, le=1_000_000)] | None = None
    min_p: Probability | None = None
    seed: int | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    stop: Stop | None = None
    n: Choices | None = None
    logit_bias: dict[str, float] | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    prompt_cache_key: str | None = None
    roost: RoostWishes | None = None
    response_format: Json | None = None
    grammar: str | None = None


class ChatCompletionRequest(Drawn, kw_only=True, omit_defaults=True):
    """A conversation that is to be gone on with."""

    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    max_completion_tokens: Limit | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["auto", "none", "required", "any"] | Json | None = None
    parallel_tool_calls: bool | None = None
    function_call: Literal["auto", "none"] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    chat_template_kwargs: Json | None = None


class CompletionRequest(Drawn, kw_only=True, omit_defaults=True):
    """A text that is to be gone on with: one prompt or several, as text or token ids."""

    prompt: str | list[str | int | Ids] | None = None
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | bool | None = None
    best_of: int | None = None
    echo: bool | None = None
    suffix: str | None = None


class PromptDetails(msgspec.Struct, forbid_unknown_fields=True):
    """How much of a prompt needed no prefill."""

    cached_tokens: Count


class CompletionDetails(msgspec.Struct, forbid_unknown_fields=True):
    """How much of an answer was thought."""

    reasoning_tokens: Count


class TokenCounts(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What was counted."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails | None = None


class TopToken(msgspec.Struct, forbid_unknown_fields=True):
    """A token with its natural log probability, and its bytes."""

    token: str
    logprob: float
    bytes: list[int]


class ChosenToken(TopToken, forbid_unknown_fields=True):
    """The token that was drawn, and the likeliest others."""

    top_logprobs: list[TopToken]


class ChatLogprobs(msgspec.Struct, forbid_unknown_fields=True):
    """Log probabilities of the tokens of a text."""

    content: list[ChosenToken]
    refusal: None = None


class CalledFunction(msgspec.Struct, forbid_unknown_fields=True):
    """What is called, and with what, as JSON in a text."""

    name: str
    arguments: str


class CallTold(msgspec.Struct, forbid_unknown_fields=True):
    """A whole call."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class ChatAnswer(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What the model says."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str | None = None
    tool_calls: list[CallTold] | None = None


class ChatChoice(msgspec.Struct, forbid_unknown_fields=True):
    """One of the answers."""

    index: Count
    message: ChatAnswer
    logprobs: ChatLogprobs | None
    finish_reason: Finish


class ChatCompletion(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The answer to a chat, whole."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: TokenCounts
    system_fingerprint: str | None = None
    roost: dict[str, Fact] | None = None


class FunctionDelta(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The beginning of a call has the name; what comes after it adds to the arguments."""

    arguments: str
    name: str | None = None


class CallDelta(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """More of call `index`; its id comes first and once."""

    index: Count
    function: FunctionDelta
    id: str | None = None
    type: Literal["function"] | None = None


class ChatDelta(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is new."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallDelta] | None = None


class ChunkChoice(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """More of one of the answers."""

    index: Count
    delta: ChatDelta
    finish_reason: Finish | None
    logprobs: ChatLogprobs | None = None


class ChatCompletionChunk(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One event of a streamed chat."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: TokenCounts | None = None
    system_fingerprint: str | None = None
    roost: dict[str, Fact] | None = None


class CompletionLogprobs(msgspec.Struct, forbid_unknown_fields=True):
    """Log probabilities as lists that belong together."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(msgspec.Struct, forbid_unknown_fields=True):
    """One of the answers, or more of it."""

    index: Count
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None


class Completion(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The answer to a completion, whole or one event of it."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: TokenCounts | None = None
    system_fingerprint: str | None = None
    roost: dict[str, Fact] | None = None


class EmbeddingRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Texts, or token ids, that a vector is to be made of each."""

    model: str | None = None
    input: str | list[str | int | Ids]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    user: str | None = None
    roost: RoostWishes | None = None


class Embedding(msgspec.Struct, forbid_unknown_fields=True):
    """The vector of input `index`; in base64, the bytes of 32-bit floats."""

    object: Literal["embedding"]
    index: Count
    embedding: list[float] | str


class EmbeddingCounts(msgspec.Struct, forbid_unknown_fields=True):
    """What was counted."""

    prompt_tokens: Count
    total_tokens: Count


class EmbeddingList(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Vectors in the order of the inputs."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingCounts
    roost: dict[str, Fact] | None = None


class RankedText(msgspec.Struct, forbid_unknown_fields=True):
    """A document."""

    text: str


class RerankRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Documents, texts or objects with a `text`, that are to be scored for a query."""

    model: str | None = None
    query: Annotated[str, msgspec.Meta(min_length=1)]
    documents: Annotated[list[str | Json], msgspec.Meta(min_length=1)]
    top_n: Annotated[int, msgspec.Meta(ge=1)] | None = None
    return_documents: bool | None = None
    user: str | None = None
    roost: RoostWishes | None = None


class Ranked(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The score of document `index`; it compares documents for one query, and nothing else."""

    index: Count
    relevance_score: float
    document: RankedText | None = None


class RerankReply(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The best documents, the best first."""

    id: str
    object: Literal["list"]
    model: str
    results: list[Ranked]
    usage: EmbeddingCounts
    roost: dict[str, Fact] | None = None


class Model(msgspec.Struct, forbid_unknown_fields=True):
    """A model that can be asked; `mode` is of one that says no texts."""

    id: str
    created: int
    object: Literal["model"]
    owned_by: str
    mode: Literal["embed", "rank"] | None = None


class ModelList(msgspec.Struct, forbid_unknown_fields=True):
    """The models that can be asked."""

    object: Literal["list"]
    data: list[Model]
