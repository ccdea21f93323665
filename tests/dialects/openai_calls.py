"""Short ways to send a body through the OpenAI dialect."""

from __future__ import annotations

import json

import pytest

from roost.core.request import ChatPrompt, Message
from roost.dialects.openai.chat import read_chat
from roost.dialects.openai.completions import read_completion
from roost.dialects.openai.options import Translated
from roost.errors import Failure, RoostError


def chat(*, strict: bool = False, **fields: object) -> Translated:
    """Translate a chat of one user message with these fields on top."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return read_chat(json.dumps(body).encode(), strict=strict)


def completion(*, strict: bool = False, **fields: object) -> Translated:
    """Translate a completion of a short prompt with these fields on top."""
    body = {"model": "m", "prompt": "hi", **fields}
    return read_completion(json.dumps(body).encode(), strict=strict)


def messages(*sent: object) -> tuple[Message, ...]:
    """Translate a chat and give its messages."""
    prompt = chat(messages=list(sent)).request.prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


def chat_failure(*, strict: bool = False, **fields: object) -> Failure:
    """Give the failure that a chat with these fields earns."""
    with pytest.raises(RoostError) as caught:
        chat(strict=strict, **fields)
    assert caught.value.failure.status == 400
    return caught.value.failure


def completion_failure(*, strict: bool = False, **fields: object) -> Failure:
    """Give the failure that a completion with these fields earns."""
    with pytest.raises(RoostError) as caught:
        completion(strict=strict, **fields)
    assert caught.value.failure.status == 400
    return caught.value.failure
