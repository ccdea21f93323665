"""SHELL: what a runtime tells of a prompt beside its length: its tokens, and its text.

Of a text these are its tokens; of a conversation the tokens and what the model's template makes of
it; of tokens their text. It takes as much as fits the context, as an answer to it would.
"""

from __future__ import annotations

import msgspec

from roost.backends.base import Prepared, Runtime, Teller
from roost.core.ids import TenantId
from roost.core.request import ChatPrompt, GenerateRequest, TextPrompt, TokensPrompt
from roost.errors import fail

TEXT_MAX_CHARACTERS = 1024 * 1024
TOKENS_MAX = 131_072


def are_wanted(request: GenerateRequest) -> bool:
    """Whether a request wants to be told its own prompt, and nothing else."""
    return request.counts and request.return_tokens


async def prepared(runtime: Runtime, request: GenerateRequest, owner: TenantId) -> Prepared:
    """Make such a request ready; raises what `Runtime.prepare` and `base.Teller` raise."""
    prompt = request.prompt
    if isinstance(prompt, TextPrompt) and prompt.bare:
        # Who knows nothing of bare texts would put something before this one.
        _teller(runtime)
    ready = await runtime.prepare(msgspec.structs.replace(request, counts=False), owner)
    if len(ready.tokens) > TOKENS_MAX:
        message = f"The prompt has {len(ready.tokens)} tokens, {TOKENS_MAX} are told."
        raise fail("context_length_exceeded", message, param="prompt")
    text = ""
    if isinstance(prompt, TokensPrompt):
        text = await _teller(runtime).detokenize(prompt.tokens)
    elif isinstance(prompt, ChatPrompt) and isinstance(runtime, Teller):
        text = await runtime.rendered(prompt)
    if len(text) > TEXT_MAX_CHARACTERS:
        message = f"The text has {len(text)} characters, {TEXT_MAX_CHARACTERS} are told."
        raise fail("context_length_exceeded", message, param="prompt")
    return msgspec.structs.replace(ready, text=text)


def _teller(runtime: Runtime) -> Teller:
    if not isinstance(runtime, Teller):
        name = runtime.key.backend
        raise fail("unsupported", f"The backend {name} tells no texts of prompts.", param="model")
    return runtime
