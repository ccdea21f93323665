"""VALUE: what a client asks for, after its dialect has been translated away."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from roost.core.allowance import Account
from roost.core.compacted import Compacted
from roost.core.engine import Mode
from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.pin import REWRITTEN, Pin
from roost.core.trace import Parent

Role = Literal["system", "user", "assistant", "tool"]
ServiceClass = Literal["interactive", "agent", "bulk"]
CLASSES: tuple[ServiceClass, ...] = get_args(ServiceClass)
"""The better first."""
BIASES_MAX = 300
"""The most tokens of one `logit_bias`, each of which is looked at for each token of an answer."""
ToolMode = Literal["auto", "none", "required"]
OnLoss = Literal["error", "replay"]
Scope = Literal["plain_turns", "turns", "all"]
"""What can be asked, each including those before: turns of a named conversation without any wish
about sampling and stop strings, turns with such wishes, anything."""


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a tool that a model has made; `arguments` is text, JSON where all went well."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of a chat. `content` is text; "" where the client sent null.

    An assistant's turn may have `reasoning`, what it thought before it spoke, and `calls` behind
    its content. A tool's turn is the result of the call `call_id`, None where nobody says of which.
    """

    role: Role
    content: str
    name: str | None = None
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model may call; `parameters` is the text of a JSON schema, "" for none at all."""

    name: str
    description: str = ""
    parameters: str = ""


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tools of a request, and what the model shall do with them; at least one tool.

    `required` demands a call, of the tool `only` where that is not "". With `none` the model is not
    told of the tools. Without `parallel` an answer has one call at most.
    """

    tools: tuple[Tool, ...]
    mode: ToolMode = "auto"
    only: str = ""
    parallel: bool = True


class ChatPrompt(msgspec.Struct, frozen=True, tag="chat", omit_defaults=True):
    """A conversation to be rendered with the model's chat template; at least one message.

    With `continues` the last message is the beginning of the answer, and the model goes on with it.
    `thinking` and `effort` are for templates that know such a thing; None and "" leave it to them.
    With `trims` the oldest turns of one that is too long are left out in place of a refusal.
    """

    messages: tuple[Message, ...]
    offer: Offer | None = None
    continues: bool = False
    thinking: bool | None = None
    effort: str = ""
    trims: bool = False


class TextPrompt(msgspec.Struct, frozen=True, tag="text", omit_defaults=True):
    """Raw text, tokenised without special tokens except the model's own BOS; a `bare` one has none.

    Only whoever `counts` and wants to see tokens may have it bare.
    """

    text: str
    bare: bool = False


class TokensPrompt(msgspec.Struct, frozen=True, tag="tokens"):
    """Token ids of this very model; checked against its vocabulary before native code sees them."""

    tokens: tuple[int, ...]


class EmbedPrompt(msgspec.Struct, frozen=True, tag="embed", omit_defaults=True):
    """Inputs, texts or token ids of this very model, that a vector is made of each; at least one.

    `dimensions` are how many numbers each vector shall have; 0 is as many as the model makes.
    """

    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int = 0


class RankPrompt(msgspec.Struct, frozen=True, tag="rank"):
    """Documents, at least one, each to be scored by how well it answers a query."""

    query: str
    documents: tuple[str, ...]


Prompt: TypeAlias = ChatPrompt | TextPrompt | TokensPrompt | EmbedPrompt | RankPrompt


def mode_for(prompt: Prompt) -> Mode:
    """Say what a model has to be for, to be asked this."""
    match prompt:
        case EmbedPrompt():
            return "embed"
        case RankPrompt():
            return "rank"
    return "generate"


class Sampling(msgspec.Struct, frozen=True):
    """How the next token is drawn; None leaves the backend's default.

    Ranges are checked by the dialect and again by the backend:
    temperature 0..2, top_p 0..1, min_p 0..1, top_k 0..1,000,000, penalties -2..2, seed 0..2**32-1.
    `logit_bias` has token ids of this very model, each with what is added to its chance, -100..100:
    -100 keeps it out.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()


class Continuation(msgspec.Struct, frozen=True):
    """The beginning of an answer, said by a runtime that is no more; another one goes on from here.

    `tokens` follow the prompt as they are and are never rendered again. `digest` is that of the
    offer they came from: to other weights, or another tokeniser, they mean something else.
    """

    tokens: tuple[int, ...]
    digest: str


class JsonAny(msgspec.Struct, frozen=True, tag="json_object"):
    """The answer is a JSON object, whichever."""


class JsonSchema(msgspec.Struct, frozen=True, tag="json_schema"):
    """The answer is JSON that is valid under this schema; `text` is the schema as JSON."""

    text: str


class Grammar(msgspec.Struct, frozen=True, tag="grammar"):
    """The answer is a text of this grammar, written as GBNF with a rule `root`."""

    text: str


Constraint: TypeAlias = JsonAny | JsonSchema | Grammar


class GenerateRequest(msgspec.Struct, frozen=True):
    """One generation.

    `max_tokens` None means up to the end of the context; larger values are clamped to it.
    `stop` holds at most 16 non-empty strings.
    `top_logprobs` None means no log probabilities, 0..20 alternatives per token otherwise.
    `return_tokens` asks for the ids of an answer's tokens; `max_tokens` counts those of a
    `continuation` too, though to the runtime they are prompt.
    `constraint` is what every answer that ends by itself is held to; one that is cut off by its
    limit is the beginning of such a text.
    One that `counts` wants to know how long its prompt is, and nothing else: nothing is computed,
    and its end, which comes at once, says of the whole prompt that it needs no prefill. With
    `return_tokens` a delta before it has the prompt's tokens, and of a chat or of tokens the text.
    """

    model: ModelId
    prompt: Prompt
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: Sampling = Sampling()
    top_logprobs: int | None = None
    ignore_eos: bool = False
    return_tokens: bool = False
    continuation: Continuation | None = None
    constraint: Constraint | None = None
    counts: bool = False

    @property
    def said(self) -> tuple[int, ...]:
        """The tokens of the answer that are there already."""
        return () if self.continuation is None else self.continuation.tokens


class Terms(msgspec.Struct, frozen=True):
    """Under which terms a request is served: everything about a call that is not its content.

    `chain` is the hash chain of the conversation so far, oldest prefix first, empty for raw
    prompts: entry i stands for (tenant, model, messages[: i + 1]).
    `timeout_s` counts from arrival; None means no deadline of the client's own.
    `prompt_bytes` is the UTF-8 length of the prompt's text and `prompt_tokens` its exact length; 0
    is unknown. `max_tokens` None means up to the end of the context.
    `weight` is the tenant's share of the fleet against other tenants that wait, above 0.
    `on_loss` says what becomes of an answer whose runtime dies: an error, or somebody goes on.
    `pin` is where the conversation's KV was by somebody's word; None where nobody has one. `alias`
    is a hash that requests of one conversation probably share, empty without one. With `require`
    the KV has to be there: a request that `has_past` of its own is refused where it is not known.
    One that is `fresh` begins a conversation: a home that is found for it is that of another one,
    which began with the same words.
    `compacted` says that its past is shorter than the one whose KV there may be.
    `trace` is the caller's own span, for traces.
    `needs` is the least that a node has to serve; `unfit` are nodes whose backend for the model
    cannot do what is asked, as far as was known when it came in; `mode` is what the model has to
    be for on whichever node.
    `account` is whose limits count, None where nobody has any; so many `parts` are asked for
    together, this one included, 0 for one that `comes_with` another, whose place it shares.
    `shares_as` is whose KV it may have, and who may have its: "" is the tenant alone.
    """

    request_id: RequestId
    tenant: TenantId
    chain: tuple[bytes, ...] = ()
    timeout_s: float | None = None
    prompt_bytes: int = 0
    prompt_tokens: int = 0
    max_tokens: int | None = None
    class_: ServiceClass = "interactive"
    weight: float = 1.0
    pin: Pin | None = None
    on_loss: OnLoss = "error"
    alias: bytes = b""
    require: bool = False
    has_past: bool = False
    fresh: bool = False
    compacted: Compacted | None = None
    needs: Scope = "all"
    unfit: frozenset[NodeId] = frozenset()
    mode: Mode = "generate"
    trace: Parent | None = None
    account: Account | None = None
    parts: int = 1
    comes_with: RequestId = RequestId("")
    shares_as: TenantId = TenantId("")

    @property
    def rewritten(self) -> bool:
        """Whether it goes on from another past than the turn before did."""
        return self.compacted is not None or (self.pin is not None and self.pin.moved == REWRITTEN)

    @property
    def sharer(self) -> TenantId:
        """Whose KV it is, as nodes know it."""
        return self.shares_as or self.tenant
