"""DECIDER: prompts of the scripted backend: every byte is a token, and three more are marks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, takewhile

import msgspec

from roost.backends.base import Prepared
from roost.core.request import ChatPrompt, GenerateRequest, TextPrompt, TokensPrompt
from roost.text.control import ControlTokens
from roost.text.endings import THINK_MARKS, Ending, Rendered
from roost.text.offers import told

BOS, TURN, END = 256, 257, 258
VOCAB_SIZE = 259
_MARKS = {BOS: b"<bos>", TURN: b"<turn>", END: b"<end>"}
# No text can become one of these three, so nothing has to be cut.
_ENDING = Ending(ControlTokens(()), "\0", THINK_MARKS[0])


def tokens_in(request: GenerateRequest) -> tuple[tuple[int, ...], Rendered | None]:
    """Give a prompt's tokens, and how a chat's answer is to be read."""
    prompt = request.prompt
    if isinstance(prompt, TokensPrompt):
        return prompt.tokens, None
    if isinstance(prompt, TextPrompt):
        begin = () if prompt.bare else (BOS,)
        return (*begin, *_bytes(prompt.text)), None
    assert isinstance(prompt, ChatPrompt), "others are refused by `check_request`"
    begun = prompt.messages[-1].content if prompt.continues else ""
    if prompt.continues:
        prompt = msgspec.structs.replace(prompt, messages=prompt.messages[:-1])
    turns = (
        (TURN, *_bytes(f"{message.role}\n{message.content}"), END)
        for message in told(prompt, system=True)
    )
    ending = _ENDING.of("", prompt, begun, exact=request.constraint is not None)
    last = _bytes("".join(ending.pieces))
    return (BOS, *chain.from_iterable(turns), TURN, *b"assistant\n", *last), ending


def prompt_of(prepared: Prepared) -> tuple[int, ...]:
    """Give the tokens of the prompt alone, without those of an answer that is continued."""
    return prepared.tokens[: len(prepared.tokens) - len(prepared.request.said)]


def text_of(tokens: Sequence[int]) -> str:
    """Give the bytes as text, and marks by their names."""
    parts = (_MARKS.get(token) or bytes([token]) for token in tokens)
    return b"".join(parts).decode("utf-8", "replace")


def last_text(tokens: tuple[int, ...]) -> bytes:
    """Give the last message without its role, or all text where there are no messages."""
    if END not in tokens:
        return bytes(token for token in tokens if token < BOS)
    end = len(tokens) - tokens[::-1].index(END) - 1
    turn = bytes(takewhile(lambda token: token != TURN, tokens[end - 1 :: -1]))[::-1]
    return turn.partition(b"\n")[2]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
