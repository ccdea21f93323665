"""DECIDER: what roost needs to know of a model, as its card says."""

from __future__ import annotations

from roost.core.card import Card, Omlx, Remote, Runner, Vllm
from roost.store.models.vocabulary import Facts

ASKED = ("chat", "completion")


def facts_of(card: Card) -> Facts:
    """Take the facts from a card; one without a template is for completions alone."""
    if isinstance(card, (Remote, Vllm, Omlx)):
        # A server renders its own template, which nobody here ever sees.
        remote = isinstance(card, Remote)
        format_ = "vllm" if isinstance(card, Vllm) else "openai_http" if remote else "omlx"
        return Facts("", format_, ctx_train=card.ctx, chat_template="", tasks=ASKED, remote=remote)
    return Facts(
        format="command" if isinstance(card, Runner) else "command_once",
        ctx_train=card.ctx,
        chat_template=card.chat_template,
        bos=card.bos,
        eos=card.eos,
        # A program that tokenises by itself puts the first token before a prompt by itself too.
        add_bos=isinstance(card, Runner) and card.add_bos,
        control_tokens=card.control_tokens,
        tasks=ASKED if card.chat_template is not None else ("completion",),
    )
