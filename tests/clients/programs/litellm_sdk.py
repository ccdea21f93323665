"""SHELL: LiteLLM over both APIs: whole, streamed, tools, and the class of each mistake."""

from __future__ import annotations

import json
from importlib import import_module

from tests.clients.programs.asking import (
    CALL,
    CITY,
    KEY,
    MODEL,
    MOST,
    OVERFLOW,
    PIECES,
    SCHEMA,
    SCRIPTED,
    URL,
    check_text,
    saying,
)

litellm = import_module("litellm")
setattr(litellm, "suppress_debug_info", True)  # noqa: B010 - a library without types
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]

for name, base in ((f"openai/{MODEL}", f"{URL}/v1"), (f"anthropic/{MODEL}", URL)):

    def ask(content: str, model: str = name, base: str = base, **more: object) -> object:
        """Ask this model at this address."""
        shared = {"api_base": base, "api_key": KEY, "num_retries": 0, "timeout": 120}
        messages = [{"role": "user", "content": content}]
        return litellm.completion(
            **{"model": model, "messages": messages, "max_tokens": MOST, **shared, **more}
        )

    whole = ask(saying(PIECES))
    check_text(whole.choices[0].message.content)  # type: ignore[attr-defined]
    chunks = list(ask(saying(PIECES), stream=True))  # type: ignore[call-overload]
    check_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
    if SCRIPTED:
        called = ask(saying(CALL), tools=TOOLS, max_tokens=200)
        call = called.choices[0].message.tool_calls[0]  # type: ignore[attr-defined]
        assert json.loads(call.function.arguments) == CITY
    for error, content, model in (
        (litellm.ContextWindowExceededError, OVERFLOW, name),
        (litellm.NotFoundError, "x", name.replace(MODEL, "nope")),
    ):
        try:
            ask(content, model)
        except error:
            continue
        raise AssertionError(f"no {error.__name__}")
