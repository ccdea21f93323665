"""DECIDER: /tokenize, /detokenize and /apply-template, in the shapes of llama.cpp and vLLM.

    /tokenize         {"content"} or {"prompt"} or {"messages"}  ->  {"tokens", "count"}
    /detokenize       {"tokens"}                                 ->  {"content", "prompt"}
    /apply-template   {"messages"}                               ->  {"prompt"}

`content` is llama.cpp's and has no BOS unless `add_special` is true; `prompt` and `messages` are
vLLM's and are what a model would get, with one. Text never becomes a token that steers a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from roost.core.events import Delta, Failed, Finished, StreamEvent
from roost.core.ids import ModelId
from roost.core.request import GenerateRequest, Prompt, TextPrompt, TokensPrompt
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, parse_object
from roost.dialects.json_text import encode_text
from roost.dialects.openai import options as shared
from roost.dialects.openai.chat import read_chat
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.completions import TOKEN_ID_MAX, are_whole
from roost.dialects.openai.envelope import Fact
from roost.errors import RoostError, fail

Asked: TypeAlias = Literal["tokens", "text", "template"]
TOO_OLD = "The node of this model tells no prompts: its roost is an older one."

SHARED_FIELDS = frozenset({"model", "roost"})
CHAT_FIELDS = frozenset({"messages", "tools", "chat_template_kwargs", "reasoning_effort"})
TOKENIZE_FIELDS = SHARED_FIELDS | {"content", "prompt", "add_special", "add_special_tokens"}
_NEVER = {
    "with_pieces": "pieces of tokens are not told",
    "return_token_strs": "pieces of tokens are not told",
    "parse_special": "text never becomes a token that steers the model",
    "continue_final_message": "send an assistant's message last, which is gone on with",
}
"""Wishes that cannot be had, true ones alone."""


def read_tokenize(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a question for tokens; `strict` refuses fields that would have no effect.

    Raises `bad_request` or `unsupported`, both with the field at fault.
    """
    sent = parse_object(body)
    named = [name for name in ("content", "prompt", "messages") if sent.get(name) is not None]
    if len(named) != 1:
        message = "Send one of 'content', 'prompt' and 'messages'."
        raise fail("bad_request", message, param=(*named, "content")[0])
    _refuse(sent)
    if named[0] == "messages":
        return _chat(sent, {"add_special_tokens"}, strict=strict)
    is_bare = not _special(sent, by_default=named[0] == "prompt")
    text = fields.text(sent, named[0]) or ""
    return _translated(sent, TextPrompt(text, is_bare), TOKENIZE_FIELDS, strict=strict)


def read_detokenize(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a question for the text of tokens; as above."""
    sent = parse_object(body)
    ids = sent.get("tokens")
    if not isinstance(ids, list) or not are_whole(ids):
        raise fields.wrong("tokens", "an array of token ids", ids)
    if not ids or not 0 <= min(ids) <= max(ids) <= TOKEN_ID_MAX:
        message = f"'tokens' has at least one token id, each from 0 to {TOKEN_ID_MAX}."
        raise fail("bad_request", message, param="tokens")
    return _translated(sent, TokensPrompt(tuple(ids)), SHARED_FIELDS | {"tokens"}, strict=strict)


def read_template(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a question for what a template makes of a conversation; as above."""
    sent = parse_object(body)
    _refuse(sent)
    return _chat(sent, set(), strict=strict)


def _refuse(sent: JsonObject) -> None:
    for name, why in _NEVER.items():
        if fields.flag(sent, name):
            raise fail("unsupported", f"'{name}' is not supported: {why}.", param=name)
    if fields.flag(sent, "add_generation_prompt") is False:
        message = "A prompt here always ends where the answer begins."
        raise fail("unsupported", message, param="add_generation_prompt")


def _special(sent: JsonObject, *, by_default: bool) -> bool:
    """Whether what a prompt begins with is to be before the text, by either of its names."""
    for name in ("add_special", "add_special_tokens"):
        value = fields.flag(sent, name)
        if value is not None:
            return value
    return by_default


def _chat(sent: JsonObject, known: set[str], *, strict: bool) -> shared.Translated:
    wanted = {name: value for name, value in sent.items() if name in CHAT_FIELDS | SHARED_FIELDS}
    found = read_chat(msgspec.json.encode(wanted), strict=strict)
    known = {*CHAT_FIELDS, *SHARED_FIELDS, *_NEVER, "add_generation_prompt", *known}
    names = {*found.ignored, *shared.unknown_names(sent, known)}
    return msgspec.structs.replace(
        found,
        request=_asking(found.request.model, found.request.prompt),
        ignored=shared.name_ignored(names, strict=strict),
    )


def _translated(
    sent: JsonObject, prompt: Prompt, known: frozenset[str], *, strict: bool
) -> shared.Translated:
    names = shared.unknown_names(sent, known | _NEVER.keys())
    return shared.Translated(
        _asking(ModelId(shared.read_model(sent) or ""), prompt),
        shared.ReplyOptions(model_as_sent=fields.text(sent, "model")),
        shared.name_ignored(names, strict=strict),
        fields.mapping(sent, "roost"),
    )


def _asking(model: ModelId, prompt: Prompt) -> GenerateRequest:
    return GenerateRequest(model, prompt, max_tokens=1, return_tokens=True, counts=True)


class PromptTold:
    """Tells of a prompt what was asked; `choice` makes no difference to that."""

    def __init__(self, choice: Choice, asked: Asked) -> None:
        self._asked = asked
        self._text: list[str] = []
        self._ids: list[int] = []

    def event(self, event: StreamEvent) -> bytes:
        """Take an event; return the JSON body at the end. Raises the failure that ended it."""
        if isinstance(event, Failed):
            raise RoostError(event.failure)
        if isinstance(event, Delta):
            self._text.append(event.text)
            self._ids += event.ids
        if not isinstance(event, Finished):
            return b""
        if len(self._ids) != event.usage.prompt_tokens:
            raise fail("unsupported", TOO_OLD, param="model")
        text = encode_text("".join(self._text))
        if self._asked == "tokens":
            listed = msgspec.json.encode(self._ids)
            return b'{"tokens":%b,"count":%d}' % (listed, len(self._ids))
        if self._asked == "text":
            return b'{"content":%b,"prompt":%b}' % (text, text)
        if not self._text or not self._text[0]:
            raise fail("unsupported", "The model's engine renders no templates.", param="model")
        return b'{"prompt":%b}' % text

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Say nothing of it: a prompt is the same wherever it is made."""
