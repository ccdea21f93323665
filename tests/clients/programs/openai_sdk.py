"""SHELL: OpenAI's SDK, of any age: whole, streamed, tools, errors, retries, leaving."""

from __future__ import annotations

import json
from importlib import import_module

from tests.clients.programs.asking import (
    CALL,
    CITY,
    KEY,
    MODEL,
    MOST,
    ONE_AT_ONCE,
    OVERFLOW,
    PIECES,
    SCHEMA,
    SCRIPTED,
    TALE,
    URL,
    check_text,
    saying,
)

openai = import_module("openai")
client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0, timeout=120)
create = client.chat.completions.create


def user(content: str) -> dict[str, str]:
    """Make a message."""
    return {"role": "user", "content": content}


def talk() -> None:
    """Ask whole and streamed, with usage, and by the other two of its APIs."""
    whole = create(model=MODEL, max_tokens=MOST, messages=[user(saying(PIECES))])
    check_text(whole.choices[0].message.content)
    assert whole.usage.prompt_tokens > 0
    chunks = list(
        create(
            model=MODEL,
            max_tokens=MOST,
            messages=[user(saying(PIECES))],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    check_text("".join(c.choices[0].delta.content or "" for c in chunks if c.choices))
    assert chunks[-1].usage.total_tokens > 0
    response = client.responses.create(model=MODEL, input=saying(PIECES), max_output_tokens=MOST)
    check_text(response.output_text)
    assert MODEL in [one.id for one in client.models.list().data]


def call() -> None:
    """Have a tool called, whole and streamed, and give its result back."""
    if not SCRIPTED:
        return
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    how = {"tools": tools, "max_tokens": 200}
    asked = [user(saying(CALL))]
    message = create(model=MODEL, messages=asked, **how).choices[0].message
    made = message.tool_calls[0]
    assert made.function.name == "weather"
    assert json.loads(made.function.arguments) == CITY
    parts = [
        part
        for chunk in create(model=MODEL, messages=asked, stream=True, **how)
        for part in chunk.choices[0].delta.tool_calls or []
    ]
    assert json.loads("".join(part.function.arguments or "" for part in parts)) == CITY
    history = [
        user("Weather?"),
        {"role": "assistant", "content": None, "tool_calls": [made.model_dump()]},
        {"role": "tool", "tool_call_id": made.id, "content": "sunny"},
        user(saying(PIECES)),
    ]
    check_text(create(model=MODEL, max_tokens=MOST, messages=history).choices[0].message.content)


def fail() -> None:
    """Meet mistakes as the SDK's own exceptions."""
    for error, asked in (
        (openai.NotFoundError, {"model": "nope", "messages": [user("x")]}),
        (openai.BadRequestError, {"model": MODEL, "messages": [user("x")], "temperature": 9}),
        (openai.BadRequestError, {"model": MODEL, "messages": [user(OVERFLOW)]}),
    ):
        try:
            create(**asked)
        except error as caught:
            assert OVERFLOW not in str(asked) or "prompt is too long" in str(caught)
            continue
        raise AssertionError(f"no {error.__name__}")


def wait_and_leave() -> None:
    """Leave in mid-stream, and be served at once with a key for one request at a time."""
    one = openai.OpenAI(base_url=f"{URL}/v1", api_key=ONE_AT_ONCE, max_retries=0, timeout=120)
    running = one.chat.completions.create(
        model=MODEL, max_tokens=2000, messages=[user(TALE)], stream=True
    )
    next(chunk for chunk in running if chunk.choices[0].delta.content)
    try:
        one.chat.completions.create(model=MODEL, max_tokens=5, messages=[user("x")])
    except openai.RateLimitError as error:
        assert error.response.headers["retry-after"] == "2"
    else:
        raise AssertionError("two at once")
    running.close()
    patient = one.with_options(max_retries=4)
    again = patient.chat.completions.create(
        model=MODEL, max_tokens=MOST, messages=[user(saying(PIECES))]
    )
    check_text(again.choices[0].message.content)
    left = create(model=MODEL, max_tokens=2000, messages=[user(TALE)], stream=True)
    next(chunk for chunk in left if chunk.choices[0].delta.content)
    left.close()


for step in (talk, call, fail, wait_and_leave):
    step()
