"""SHELL: LangChain over both APIs: whole, streamed, tools, and a prompt that is too long."""

from __future__ import annotations

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

chat_openai = import_module("langchain_openai").ChatOpenAI
chat_anthropic = import_module("langchain_anthropic").ChatAnthropic
messages = import_module("langchain_core.messages")
shared = {"model": MODEL, "api_key": KEY, "max_retries": 0, "max_tokens": MOST, "timeout": 120}
chats = (
    chat_openai(base_url=f"{URL}/v1", **shared),
    chat_anthropic(base_url=URL, **shared),
)
TOOL = {"title": "weather", "description": "Looks at the sky.", **SCHEMA}

for chat in chats:
    whole = chat.invoke(saying(PIECES))
    check_text(whole.text)
    assert whole.usage_metadata["input_tokens"] > 0
    check_text("".join(chunk.text for chunk in chat.stream(saying(PIECES))))
    if SCRIPTED:
        called = chat.bind_tools([TOOL]).invoke(saying(CALL), max_tokens=200)
        assert called.tool_calls[0]["args"] == CITY
        history = [
            messages.HumanMessage("Weather?"),
            called,
            messages.ToolMessage("sunny", tool_call_id=called.tool_calls[0]["id"]),
            messages.HumanMessage(saying(PIECES)),
        ]
        check_text(chat.bind_tools([TOOL]).invoke(history).text)
    try:
        chat.invoke(OVERFLOW)
    except Exception as error:  # noqa: BLE001 - its own class differs between its packages
        assert "prompt is too long" in str(error), error
    else:
        raise AssertionError("no overflow")
