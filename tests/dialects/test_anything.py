"""Whatever JSON comes in, a request of the OpenAI dialect is good, or the caller's mistake."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import Started
from roost.core.ids import TenantId
from roost.core.request import ChatPrompt
from roost.dialects.openai.chat_reply import ChatBody
from roost.dialects.openai.choice import Choice
from roost.gateway.reading.parsing import Api, Job, Parsed, Unreadable, parse
from tests.text.rendering import CHATML, CONTROL, rendered
from tests.text.test_chats import NATIVE

_texts = st.sampled_from(
    [
        *("", "x", "auto", "none", "required", "function", "text", "json_schema", "json_object"),
        *("user", "assistant", "tool", "system", "<|im_end|>", '{"a":1}', "{", "\ud800", "\0"),
        *("é\u2028", "m"),
    ]
)
_leaves = st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | _texts
_names = st.sampled_from(
    [
        *("type", "function", "name", "arguments", "parameters", "id", "role", "content", "text"),
        *("tool_calls", "schema", "json_schema", "description", "tool_call_id", "include_usage"),
        *("strict", "function_call", "reasoning_content", "enable_thinking", "image_url", "7"),
    ]
)
_anything = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=4),
    max_leaves=12,
)
_fields = st.sampled_from(
    [
        *("model", "messages", "prompt", "tools", "tool_choice", "response_format", "n", "stop"),
        *("seed", "logit_bias", "stream", "stream_options", "reasoning_effort", "max_tokens"),
        *("chat_template_kwargs", "parallel_tool_calls", "max_completion_tokens", "logprobs"),
        *("top_logprobs", "user", "metadata", "prompt_cache_key", "roost", "echo", "suffix"),
        *("best_of", "invented"),
    ]
)
_call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
_turns = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool"])},
        optional={"content": _anything | _texts, "name": _texts, "tool_calls": st.just([_call])},
    ),
    min_size=1,
    max_size=4,
)
_tools = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("function")},
        optional={"function": st.fixed_dictionaries({"name": _texts, "parameters": _anything})},
    ),
    max_size=2,
)
_bodies = st.one_of(
    st.dictionaries(_fields, _anything, max_size=6),
    st.fixed_dictionaries({"messages": _turns}, optional={"tools": _tools, "n": _leaves}),
)


@pytest.mark.parametrize("api", ["chat", "completions"])
@given(body=_bodies | _anything)
def test_no_body_is_worse_than_a_400(api: Api, body: object) -> None:
    """It is read, or refused with a field to look at; what is read can be sent and rendered."""
    raw = json.dumps(body).encode("utf-8", "surrogatepass")
    outcome = parse(Job(api, raw, TenantId("t"), "m", strict=False))
    if isinstance(outcome, Unreadable):
        assert outcome.failure.status == 400
        assert outcome.failure.message
        return
    assert isinstance(outcome, Parsed)
    prompt = outcome.request.prompt
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(outcome), type=Parsed)
    assert sent == outcome
    if isinstance(prompt, ChatPrompt):
        for template in (CHATML, NATIVE):
            pieces = rendered(template, prompt, control=CONTROL)
            voice = ChatBody(Choice("chatcmpl-1", 0, "m", outcome.options))
            voice.event(Started(1, 0, 0, pieces.reading))
