"""VALUE: every address of a fleet's gateway, with the types of what is sent and answered.

A test holds this table to the routes: an address that is served stands here, and no other does.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.core.conversation import KeptConversation
from roost.dialects.shapes import anthropic, ollama, openai, others, responses
from roost.dialects.shapes.shared import Json, OpenAIError
from roost.fleet.watching.receipts import Receipt
from roost.fleet.watching.scaling import ScalingView
from roost.fleet.watching.views import NodeView
from roost.gateway.desk import api_types as own
from roost.gateway.desk.handoff_words import DecodeAsked, PrefillAsked
from roost.gateway.desk.state_words import Act, Prune

Tag: TypeAlias = Literal[
    "openai", "anthropic", "ollama", "prompts", "roost", "control", "coordinator", "pages"
]
EVENT_STREAM = "text/event-stream"
LINES = "application/x-ndjson"
HTML = "text/html"
TEXT = "text/plain"

ERRORS: dict[Tag, object] = {
    "openai": OpenAIError,
    "anthropic": anthropic.AnthropicError,
    "ollama": ollama.OllamaError,
    "prompts": OpenAIError,
    "roost": OpenAIError,
    "control": own.ControlError,
    "coordinator": own.CoordinatorError,
    "pages": OpenAIError,
}
"""How a failure is told at addresses of each kind."""

TAGS: dict[Tag, str] = {
    "openai": "OpenAI's API, as its own SDKs speak it.",
    "anthropic": "Anthropic's API, as its own SDKs and Claude Code speak it.",
    "ollama": "The part of Ollama's API that its clients use.",
    "prompts": "What becomes of prompts, in the shapes of llama.cpp and vLLM.",
    "roost": "What operators and tenants ask and change.",
    "control": "The control protocol: what is here and how it is doing.",
    "coordinator": "System 1: turns of named conversations, and its workers.",
    "pages": "Pages for people, and their files.",
}


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one address.

    `body` and `reply` are types, None for none; `streams` are the types of an event of a streamed
    reply. `media` is the reply's content type, `query` what may be asked behind a question mark,
    `later` the type of a 202. Words in braces stand for a part of the path.
    """

    method: str
    path: str
    tag: Tag
    summary: str
    body: object = None
    reply: object = None
    streams: tuple[object, ...] = ()
    media: str = "application/json"
    stream_media: str = EVENT_STREAM
    query: tuple[str, ...] = ()
    later: object = None


def _get(path: str, tag: Tag, summary: str, reply: object, *query: str) -> Address:
    return Address(method="GET", path=path, tag=tag, summary=summary, reply=reply, query=query)


def _page(path: str, summary: str, media: str = HTML) -> Address:
    return Address(method="GET", path=path, tag="pages", summary=summary, reply=str, media=media)


def _post(
    path: str, tag: Tag, summary: str, body: object, reply: object, *streams: object
) -> Address:
    media = LINES if tag == "ollama" else EVENT_STREAM
    return Address(
        method="POST",
        path=path,
        tag=tag,
        summary=summary,
        body=body,
        reply=reply,
        streams=streams,
        stream_media=media,
    )


_OPENAI = (
    _post(
        "/v1/chat/completions",
        "openai",
        "Go on with a conversation",
        openai.ChatCompletionRequest,
        openai.ChatCompletion,
        openai.ChatCompletionChunk,
        OpenAIError,
    ),
    _post(
        "/v1/completions",
        "openai",
        "Go on with a text",
        openai.CompletionRequest,
        openai.Completion,
        openai.Completion,
        OpenAIError,
    ),
    _post(
        "/v1/embeddings",
        "openai",
        "Make vectors of texts",
        openai.EmbeddingRequest,
        openai.EmbeddingList,
    ),
    _post(
        "/v1/rerank",
        "openai",
        "Score documents for a query",
        openai.RerankRequest,
        openai.RerankReply,
    ),
    _post(
        "/v1/responses",
        "openai",
        "Make a response, which is kept",
        responses.ResponseRequest,
        responses.Response,
        responses.ResponseEvent,
    ),
    Address(
        method="GET",
        path="/v1/responses/{response}",
        tag="openai",
        summary="Read a response again; with stream=true, its events",
        reply=responses.Response,
        streams=(responses.ResponseEvent,),
        query=("stream", "starting_after"),
    ),
    _get(
        "/v1/responses/{response}/input_items",
        "openai",
        "List what a response was asked",
        responses.InputItems,
    ),
    Address(
        method="DELETE",
        path="/v1/responses/{response}",
        tag="openai",
        summary="Remove a response",
        reply=responses.Deleted,
    ),
    _post(
        "/v1/responses/{response}/cancel",
        "openai",
        "Stop a response in the background",
        None,
        responses.Response,
    ),
    _get("/v1/models", "openai", "List the models that can be asked", openai.ModelList),
    _get("/v1/models/{model}", "openai", "Look at one model", openai.Model),
)
_ANTHROPIC = (
    _post(
        "/v1/messages",
        "anthropic",
        "Go on with a conversation",
        anthropic.MessageRequest,
        anthropic.MessageReply,
        anthropic.MessageEvent,
    ),
    _post(
        "/v1/messages/count_tokens",
        "anthropic",
        "Count a prompt",
        anthropic.MessageRequest,
        anthropic.MessageCount,
    ),
)
_OLLAMA = (
    _post(
        "/api/chat",
        "ollama",
        "Go on with a conversation, in lines unless stream is false",
        ollama.OllamaChatRequest,
        ollama.OllamaChatReply,
        ollama.OllamaChatReply,
        ollama.OllamaError,
    ),
    _post(
        "/api/generate",
        "ollama",
        "Answer a prompt, in lines unless stream is false",
        ollama.OllamaGenerateRequest,
        ollama.OllamaGenerateReply,
        ollama.OllamaGenerateReply,
        ollama.OllamaError,
    ),
    _post(
        "/api/embed",
        "ollama",
        "Make vectors of texts",
        ollama.OllamaEmbedRequest,
        ollama.OllamaEmbedReply,
    ),
    _post(
        "/api/embeddings",
        "ollama",
        "Make a vector of a text",
        ollama.OllamaEmbeddingsRequest,
        ollama.OllamaEmbeddingsReply,
    ),
    _post("/api/show", "ollama", "Look at one model", ollama.OllamaShowRequest, ollama.OllamaShown),
    _get("/api/tags", "ollama", "List the models that can be asked", ollama.OllamaTags),
    _get("/api/ps", "ollama", "List what is loaded", ollama.OllamaRunning),
    _get("/api/version", "ollama", "Say which release of the API this is", ollama.OllamaVersion),
)
_PROMPTS = (
    _post(
        "/v1/tokenize",
        "prompts",
        "Tell the tokens of a text or a conversation",
        others.TokenizeRequest,
        others.TokenizeReply,
    ),
    _post(
        "/v1/detokenize",
        "prompts",
        "Tell the text of tokens",
        others.DetokenizeRequest,
        others.DetokenizeReply,
    ),
    _post(
        "/v1/apply-template",
        "prompts",
        "Tell what the model's template makes of a conversation",
        others.TemplateRequest,
        others.TemplateReply,
    ),
)


def _node(verb: str, summary: str) -> Address:
    return _post(f"/roost/v1/nodes/{{node}}/{verb}", "roost", summary, None, NodeView)


def _order(verb: str, summary: str) -> Address:
    return Address(
        method="POST",
        path=f"/roost/v1/nodes/{{node}}/{verb}",
        tag="roost",
        summary=summary,
        body=own.OrderAsked,
        reply=own.OrderTold,
        later=own.OrderTold,
    )


_ROOST = (
    _get("/health", "roost", "Say that the process lives", own.Healthy),
    _get("/ready", "roost", "Say whether a request could be served", own.Ready),
    Address(
        method="GET",
        path="/metrics",
        tag="roost",
        summary="Tell figures, as Prometheus reads them",
        reply=str,
        media=TEXT,
    ),
    _get("/roost/v1/fleet", "roost", "Look at every node and the queue", own.Fleet),
    _get("/roost/v1/placement", "roost", "Look at where models run", own.Placement),
    _get("/roost/v1/scaling", "roost", "Look at how many nodes are needed", ScalingView),
    _get("/roost/v1/queue", "roost", "Look at who waits", own.Queue),
    _get("/roost/v1/requests/{request}", "roost", "Look at what became of a request", Receipt),
    Address(
        method="GET",
        path="/roost/v1/requests/{request}/stream",
        tag="roost",
        summary="Go on with a stream whose connection was lost",
        streams=(Json,),
        query=("from",),
    ),
    Address(
        method="DELETE",
        path="/roost/v1/requests/{request}",
        tag="roost",
        summary="Cancel a request",
        later=Json,
    ),
    _node("drain", "Give a node nothing new"),
    _node("undrain", "Give a node work again"),
    _order("load", "Have a node load a model"),
    _order("unload", "Have a node unload a model"),
    _order("pin", "Have a node keep a model loaded"),
    _order("unpin", "Let a node unload a model"),
    Address(
        method="POST",
        path="/roost/v1/nodes/{node}/pull",
        tag="roost",
        summary="Have a node fetch a model",
        body=own.PullAsked,
        later=own.PullTold,
    ),
    Address(
        method="DELETE",
        path="/roost/v1/nodes/{node}/pull/{job}",
        tag="roost",
        summary="Have a node give a pull up",
        later=own.PullTold,
    ),
    _get("/roost/v1/conversations", "roost", "List kept conversations", own.Conversations),
    _get(
        "/roost/v1/conversations/{name}",
        "roost",
        "Read what was said in a conversation of one's own",
        KeptConversation,
    ),
    Address(
        method="DELETE",
        path="/roost/v1/conversations/{name}",
        tag="roost",
        summary="Remove a conversation",
        reply=own.Removed,
        query=("tenant",),
    ),
    _get("/openapi.json", "roost", "Read this document", Json),
)
_CONTROL = (
    _get("/roost/v1/info", "control", "Say what this is", own.Enveloped),
    _get("/roost/v1/capabilities", "control", "Say what can be asked", own.Enveloped),
    _get("/roost/v1/memory", "control", "Say what memory there is", own.Enveloped),
    _get("/roost/v1/runtimes", "control", "List runtimes", own.Enveloped),
    _get("/roost/v1/observability", "control", "Say what happens", own.Enveloped),
    _get(
        "/roost/v1/states",
        "control",
        "List kept states of conversations",
        own.Enveloped,
        *("node", "model", "tier", "limit", "after"),
    ),
    _get("/roost/v1/states/{state}", "control", "Look at one state", own.Enveloped),
    _post(
        "/roost/v1/states/{state}/actions",
        "control",
        "Save, move, pin or erase a state",
        Act,
        own.Enveloped,
    ),
    _post("/roost/v1/prefill", "control", "Compute a prompt ahead", PrefillAsked, own.Enveloped),
    _post("/roost/v1/decode", "control", "Answer such a prompt, once", DecodeAsked, own.Enveloped),
    _post("/roost/v1/states/prune", "control", "Erase states", Prune, own.Enveloped),
)
_COORDINATOR = (
    Address(
        method="POST",
        path="/coordinator/infer",
        tag="coordinator",
        summary="Say the next turn of a conversation",
        body=others.InferRequest,
        streams=(others.InferToken, others.InferEnd),
    ),
    _post("/coordinator/health/heartbeat", "coordinator", "A worker announces itself", Json, Json),
    Address(
        method="GET",
        path="/coordinator/health",
        tag="coordinator",
        summary="Say that this is here",
        reply=str,
        media=TEXT,
    ),
    _get("/coordinator/health/workers", "coordinator", "List workers", Json),
    _get("/coordinator/health/workers/available", "coordinator", "List workers with room", Json),
    _get("/coordinator/stats", "coordinator", "Tell figures of workers", Json),
)
_PAGES = (
    _page("/", "Talk and look at the fleet; programs that ask for JSON are told what this is"),
    _page("/coordinator", "Ask, on system 1's page"),
    _page("/stats", "Look at workers, on system 1's page"),
    _page("/docs", "Read about every address"),
    _page("/web/{file}", "A file of a page", "text/javascript"),
)

ADDRESSES: tuple[Address, ...] = (
    *_OPENAI,
    *_ANTHROPIC,
    *_OLLAMA,
    *_PROMPTS,
    *_ROOST,
    *_CONTROL,
    *_COORDINATOR,
    *_PAGES,
)
