"""SHELL: from a request to its tokens, for engines that tokenise and do not render templates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from roost.backends import checks
from roost.backends.rendering.remembered import Remembered
from roost.backends.rendering.renderer import Renderer
from roost.core.ids import TenantId
from roost.core.reading import Reading
from roost.core.request import ChatPrompt, GenerateRequest, TextPrompt, TokensPrompt
from roost.errors import fail
from roost.text.endings import Rendered


class Tokenizer(Protocol):
    """Asks an engine for tokens."""

    async def __call__(self, pieces: Sequence[str], *, special: bool) -> tuple[int, ...]:
        """Tokenise pieces one by one; `special`: texts of special tokens become those tokens."""
        ...


class PromptLimits(NamedTuple):
    """What every prompt begins with, and how long it may be.

    `max_token_bytes` is the longest token's length, 0 where nobody knows.
    """

    bos: tuple[int, ...]
    max_token_bytes: int
    ctx: int


class Prompted(NamedTuple):
    """A prompt's tokens, how the answer is to be read, and the schema of a demanded call or ""."""

    tokens: tuple[int, ...]
    reading: Reading | None = None
    schema: str = ""


class Prompts:
    """Makes prompts for one runtime; `renderer` is None for a model that cannot chat.

    Without anything `remembered` every conversation is tokenised whole.
    """

    def __init__(
        self,
        renderer: Renderer | None,
        tokenize: Tokenizer,
        limits: PromptLimits,
        remembered: Remembered | None = None,
    ) -> None:
        self._renderer = renderer
        self._tokenize = tokenize
        self._limits = limits
        self._remembered = remembered

    async def tokens(self, request: GenerateRequest, owner: TenantId | None = None) -> Prompted:
        """Give the tokens, the first one once. Raises what a runtime's `prepare` may raise."""
        prompt, (bos, longest, ctx) = request.prompt, self._limits
        if isinstance(prompt, TokensPrompt):
            return Prompted(prompt.tokens)
        if isinstance(prompt, TextPrompt):
            checks.check_size(request, [prompt.text], longest, ctx)
            begin = () if prompt.bare else bos
            return Prompted(begin + await self._tokenize([prompt.text], special=False))
        assert isinstance(prompt, ChatPrompt), "others are refused by `check_request`"
        exact = request.constraint is not None
        rendered = await rendered_by(self._renderer, prompt, exact=exact, owner=owner)
        checks.check_size(request, rendered.pieces, longest, ctx)
        tokens = await self._chat_tokens(rendered.pieces, owner)
        # Many templates print the BOS themselves, and a second one makes models stutter.
        tokens = tokens if tokens[: len(bos)] == bos else bos + tokens
        return Prompted(tokens, rendered.reading, rendered.schema)

    async def _chat_tokens(self, pieces: Sequence[str], owner: TenantId | None) -> tuple[int, ...]:
        """Tokenise a conversation, of which its owner has often sent all but the end before."""
        if self._remembered is None or owner is None:
            return await self._tokenize(pieces, special=True)
        recall = self._remembered.recall(owner, pieces)
        missing = recall.missing
        told = await self._tokenize(missing, special=True) if missing else ()
        whole = recall.whole(told)
        return await self._tokenize(pieces, special=True) if whole is None else whole

    def forget(self, owner: TenantId) -> None:
        """Remember nothing of this owner's prompts."""
        if self._remembered is not None:
            self._remembered.forget(owner)
        if self._renderer is not None:
            self._renderer.forget(owner)

    async def text(self, prompt: ChatPrompt) -> str:
        """Give the text that the template makes of a conversation; raises as `tokens` does."""
        return "".join((await rendered_by(self._renderer, prompt)).pieces)


async def rendered_by(
    renderer: Renderer | None,
    prompt: ChatPrompt,
    *,
    exact: bool = False,
    owner: TenantId | None = None,
) -> Rendered:
    """Render an owner's conversation; `unsupported` where there is no template, as no renderer."""
    if renderer is None:
        message = "The model has no chat template: it can complete text, but it cannot chat."
        raise fail("unsupported", message, param="messages")
    # A date without a time, so that the same conversation has the same prefix all day.
    today = dt.datetime.now().astimezone().date().isoformat()
    return await renderer.render(prompt, today, exact=exact, owner=owner)
