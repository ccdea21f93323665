"""SHELL: Anthropic's SDK, of any age: whole, streamed, tools, counts, errors, retries, leaving."""

from __future__ import annotations

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

anthropic = import_module("anthropic")
client = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0, timeout=120)
create = client.messages.create


def user(content: object) -> dict[str, object]:
    """Make a message."""
    return {"role": "user", "content": content}


def talk() -> None:
    """Ask whole and streamed; the count of the prompt is that of the call."""
    asked = [user(saying(PIECES))]
    counted = client.messages.count_tokens(model=MODEL, messages=asked).input_tokens
    whole = create(model=MODEL, max_tokens=MOST, messages=asked)
    check_text(whole.content[0].text)
    cached = (whole.usage.cache_read_input_tokens or 0) + (
        whole.usage.cache_creation_input_tokens or 0
    )
    assert whole.usage.input_tokens + cached == counted
    with client.messages.stream(model=MODEL, max_tokens=MOST, messages=asked) as stream:
        check_text("".join(stream.text_stream))
        assert stream.get_final_message().stop_reason in {"end_turn", "max_tokens"}


def call() -> None:
    """Have a tool called, and give its result back."""
    if not SCRIPTED:
        return
    tools = [{"name": "weather", "input_schema": SCHEMA}]
    called = create(model=MODEL, max_tokens=200, messages=[user(saying(CALL))], tools=tools)
    use = next(block for block in called.content if block.type == "tool_use")
    assert (use.input, called.stop_reason) == (CITY, "tool_use")
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}
    said = {"type": "text", "text": saying(PIECES)}
    history = [
        user("Weather?"),
        {"role": "assistant", "content": [use.model_dump(exclude_none=True)]},
        user([result, said]),
    ]
    after = create(model=MODEL, max_tokens=MOST, messages=history, tools=tools)
    check_text(after.content[0].text)


def fail() -> None:
    """Meet mistakes as the SDK's own exceptions."""
    for error, model, content in (
        (anthropic.NotFoundError, "nope", "x"),
        (anthropic.BadRequestError, MODEL, OVERFLOW),
    ):
        try:
            create(model=model, max_tokens=5, messages=[user(content)])
        except error as caught:
            assert model == "nope" or "prompt is too long" in str(caught)
            continue
        raise AssertionError(f"no {error.__name__}")


def wait_and_leave() -> None:
    """Leave in mid-stream, and be served at once with a key for one request at a time."""
    one = anthropic.Anthropic(base_url=URL, api_key=ONE_AT_ONCE, max_retries=0, timeout=120)
    asked = {"model": MODEL, "max_tokens": 2000, "messages": [user(TALE)]}
    with one.messages.stream(**asked) as running:
        next(iter(running.text_stream))
        try:
            one.messages.create(model=MODEL, max_tokens=5, messages=[user("x")])
        except anthropic.RateLimitError as error:
            assert error.response.headers["retry-after"] == "2"
        else:
            raise AssertionError("two at once")
    again = one.with_options(max_retries=4).messages.create(
        model=MODEL, max_tokens=MOST, messages=[user(saying(PIECES))]
    )
    check_text(again.content[0].text)
    with client.messages.stream(**asked) as left:
        next(iter(left.text_stream))


for step in (talk, call, fail, wait_and_leave):
    step()
