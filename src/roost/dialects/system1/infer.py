"""DECIDER: a body for /coordinator/infer, the protocol of system 1, becomes a turn of a talk.

`prompt` is the text of this turn alone: what was said before is not the client's business.
"""

from __future__ import annotations

import msgspec

from roost.core.ids import ModelId
from roost.core.request import ChatPrompt, GenerateRequest, Message, Sampling, Scope
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, parse_object
from roost.dialects.openai import options as shared
from roost.errors import RoostError, fail

CONVERSATION_CHARS_MAX = 256
FIELDS = frozenset(
    {
        *("conversation_id", "prompt", "model", "max_tokens", "roost", "stop"),
        *("temperature", "top_p", "top_k", "min_p", "seed"),
        *("presence_penalty", "frequency_penalty", "logit_bias"),
    }
)


class InferAsked(msgspec.Struct, frozen=True):
    """What a turn asks for; the request holds this turn's message alone.

    `conversation` is "" where the body names none. `ignored` names fields without effect, `roost`
    is the object of that name: twins of the request headers.
    """

    conversation: str
    request: GenerateRequest
    ignored: tuple[str, ...] = ()
    roost: JsonObject = {}

    @property
    def text(self) -> str:
        """What the client says in this turn."""
        prompt = self.request.prompt
        assert isinstance(prompt, ChatPrompt), "this dialect knows nothing else"
        return prompt.messages[-1].content

    @property
    def needs(self) -> Scope:
        """What a node has to serve for this."""
        plain = self.request.sampling == Sampling() and not self.request.stop
        return "plain_turns" if plain else "turns"


def read_infer(body: bytes, *, strict: bool = False) -> InferAsked:
    """Translate a turn; `strict` refuses fields that would have no effect.

    A field that is missing, empty or zero is a `bad_request` that names it.
    """
    sent = parse_object(body)
    conversation = fields.text(sent, "conversation_id") or ""
    if len(conversation) > CONVERSATION_CHARS_MAX:
        wanted = f"a string of at most {CONVERSATION_CHARS_MAX} characters"
        raise fields.wrong("conversation_id", wanted, conversation)
    prompt, model = read_prompt(sent)
    if not sent.get("max_tokens"):
        raise missing("max_tokens")
    most = fields.whole(sent, "max_tokens", 1, None)
    request = GenerateRequest(
        model=model,
        prompt=ChatPrompt((Message("user", prompt),)),
        max_tokens=None if most is None else min(most, shared.MAX_TOKENS_CAP),
        stop=shared.read_stop(sent),
        sampling=shared.read_sampling(sent),
    )
    ignored = shared.name_ignored(shared.unknown_names(sent, FIELDS), strict=strict)
    return InferAsked(conversation, request, ignored, fields.mapping(sent, "roost"))


def read_prompt(sent: JsonObject) -> tuple[str, ModelId]:
    """Read a prompt and the model it is for; `bad_request` where one is missing or empty."""
    prompt = fields.text(sent, "prompt")
    if not prompt:
        raise missing("prompt")
    model = shared.read_model(sent) if sent.get("model") else None
    if model is None:
        raise missing("model")
    return prompt, ModelId(model)


def missing(name: str) -> RoostError:
    """Build the error for a field that has to be there, and to hold something."""
    return fail("bad_request", f"Missing required field: {name}.", param=name)
