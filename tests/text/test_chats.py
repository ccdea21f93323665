"""Tools reach the model by its own template or by the generic way, and user text stays text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import Finished, Usage
from roost.core.reading import Reading
from roost.core.request import ChatPrompt, Message, Offer, Tool, ToolCall
from roost.errors import RoostError
from roost.text.answers import read_answer
from roost.text.offers import CALL_MARKS, schema_of
from tests.text.rendering import CHATML, CONTROL, rendered

SCHEMA = '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}'
WEATHER = Tool("get_weather", "The weather.", SCHEMA)
TIME = Tool("get_time")
HI = Message("user", "hi")
# As Qwen 2.5 and the models after it tell of tools, in fewer words.
NATIVE = (
    "{%- if tools %}<|im_start|>system\n<tools>"
    "{%- for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>\n"
    "<tool_call>{}</tool_call><|im_end|>\n{%- endif %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'tool' %}<|im_start|>user\n[{{ message.name }}:"
    "{{ message.tool_call_id }}]{{ message.content }}<|im_end|>\n"
    "{%- else %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    '{%- for call in message.tool_calls %}<tool_call>{"name": "{{ call.function.name }}", '
    '"arguments": {{ call.function.arguments | tojson }}}</tool_call>{% endfor %}'
    "<|im_end|>\n{%- endif %}{% endfor %}<|im_start|>assistant\n"
)
THINKS = CHATML.replace("assistant\\n", "assistant\\n<think>\\n") + "{# </think> #}"
TURNS = (
    HI,
    Message("assistant", "", calls=(ToolCall("a", "get_weather", '{"city":"Oslo"}'),)),
    Message("tool", "sunny", call_id="a"),
)


def text_of(template: str, prompt: ChatPrompt) -> str:
    """Render to one text."""
    return "".join(rendered(template, prompt, control=CONTROL).pieces)


def test_the_generic_way() -> None:
    """A template without tools tells of them, of calls and of results in plain messages."""
    text = text_of(CHATML, ChatPrompt((*TURNS, Message("user", "thanks")), Offer((WEATHER,))))
    system, *turns = text.split("<|im_start|>")[1:]
    assert system.startswith("system\n# Tools")
    described = next(line for line in system.split("\n") if line.startswith('{"name": "get_w'))
    assert json.loads(described) == {
        "name": "get_weather",
        "description": "The weather.",
        "parameters": json.loads(SCHEMA),
    }
    written = '{"name": "get_weather", "arguments": {"city":"Oslo"}}'
    assert turns == [
        "user\nhi<|im_end|>\n",
        f"assistant\n<tool_call>\n{written}\n</tool_call><|im_end|>\n",
        "user\n<tool_response>\nget_weather:\nsunny\n</tool_response>\n\nthanks<|im_end|>\n",
        "assistant\n",
    ]


def test_the_generic_way_in_an_own_system_message() -> None:
    """What the client says as system comes first; where a template has none, the user is told."""
    prompt = ChatPrompt((Message("system", "Be kind."), HI), Offer((TIME,)))
    assert text_of(CHATML, prompt).startswith("<|im_start|>system\nBe kind.\n\n# Tools")
    mute = (
        "{% for m in messages %}<{{ 'u' if m.role == 'user' else 'a' }}>{{ m.content }}{% endfor %}"
    )
    text = text_of(mute, ChatPrompt((HI,), Offer((TIME,))))
    assert text.startswith("<u># Tools")
    assert text.endswith("\n\nhi")


def test_the_templates_own_way() -> None:
    """A template that knows tools gets them as it expects, with short ids and parsed arguments."""
    text = text_of(NATIVE, ChatPrompt(TURNS, Offer((WEATHER,))))
    assert '"parameters": {"type": "object", "properties": {"city"' in text
    assert '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>' in text
    assert "[get_weather:call00000]sunny" in text
    assert "# Tools" not in text


@pytest.mark.parametrize("template", [CHATML, NATIVE])
def test_without_tools_nothing_is_told(template: str) -> None:
    """`none` hides the tools, and still what is written as a call is no text."""
    told = text_of(template, ChatPrompt((HI,)))
    hidden = rendered(template, ChatPrompt((HI,), Offer((TIME,), mode="none")))
    assert "".join(hidden.pieces) == told
    assert hidden.reading == Reading(None, CALL_MARKS, tools=("get_time",), mode="none")
    assert rendered(template, ChatPrompt((HI,))).reading is None


@pytest.mark.parametrize(
    ("offer", "end", "schema"),
    [
        (
            Offer((WEATHER, TIME), "required", "get_weather"),
            '<tool_call>\n{"name": "get_weather", "arguments":',
            json.loads(SCHEMA),
        ),
        (
            Offer((TIME,), "required"),
            '<tool_call>\n{"name": "get_time", "arguments":',
            {"type": "object", "properties": {}},
        ),
        (Offer((WEATHER, TIME), "required"), "<tool_call>\n", None),
    ],
)
def test_a_demanded_call_is_begun(offer: Offer, end: str, schema: object) -> None:
    """The prompt ends within the call, and a schema says what may follow."""
    found = rendered(CHATML, ChatPrompt((HI,), offer))
    assert "".join(found.pieces).endswith("<|im_start|>assistant\n" + end)
    assert found.reading is not None
    assert found.reading.begun == end
    assert schema is None or json.loads(found.schema) == schema


def test_the_schema_of_a_choice() -> None:
    """Of several tools one is called, with its own arguments; references cannot be moved there."""
    choice = json.loads(schema_of(Offer((WEATHER, TIME), "required")))["anyOf"]
    assert [one["properties"]["name"]["const"] for one in choice] == ["get_weather", "get_time"]
    assert choice[0]["properties"]["arguments"] == json.loads(SCHEMA)
    refers = Tool("x", "", '{"$ref":"#/$defs/a"}')
    assert schema_of(Offer((WEATHER, refers), "required")) == ""
    assert schema_of(Offer((refers,), "required")) == refers.parameters


def test_a_begun_answer_is_gone_on_with() -> None:
    """The last assistant's message is no turn of its own: the prompt ends where it ends."""
    turns = (HI, Message("assistant", "one"), Message("assistant", "The answer is: "))
    text = text_of(CHATML, ChatPrompt(turns, continues=True))
    assert text.endswith("one<|im_end|>\n<|im_start|>assistant\nThe answer is: ")
    empty = ChatPrompt((HI, Message("assistant", "")), continues=True)
    assert text_of(CHATML, empty) == text_of(CHATML, ChatPrompt((HI,)))


def test_thoughts_are_begun_and_ended() -> None:
    """A template that opens thoughts is told so, and they are ended before what is no thought."""
    found = rendered(THINKS, ChatPrompt((HI,)))
    assert found.reading == Reading(("<think>", "</think>"), begun="<think>\n")
    closed = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    for prompt, more, exact in (
        (ChatPrompt((HI, Message("assistant", "So")), continues=True), "So", False),
        (ChatPrompt((HI,), Offer((TIME, WEATHER), "required")), "<tool_call>\n", False),
        (ChatPrompt((HI,)), "", True),
    ):
        found = rendered(THINKS, prompt, exact=exact)
        assert "".join(found.pieces).endswith(closed + more)
        assert found.reading is None or found.reading.think is None


def test_wishes_reach_the_template() -> None:
    """What is not asked for is not defined, which templates look at."""
    template = "{{ enable_thinking is defined }}{{ enable_thinking }}{{ reasoning_effort }}"
    assert text_of(template, ChatPrompt((HI,))) == "False"
    assert text_of(template, ChatPrompt((HI,), thinking=False, effort="low")) == "TrueFalselow"


def test_a_token_that_json_writes_in_another_way() -> None:
    """Where escaping could make a control token, tools are refused and plain chats are not."""
    control = ("\\n<end>",)
    assert rendered(NATIVE, ChatPrompt((HI,)), control=control).pieces
    with pytest.raises(RoostError) as caught:
        rendered(NATIVE, ChatPrompt((HI,), Offer((TIME,))), control=control)
    assert caught.value.failure.reason == "unsupported"


def test_nesting_has_an_end() -> None:
    """A schema that is nested without end is refused, not followed."""
    deep = Tool("x", "", '{"a":' * 100 + "1" + "}" * 100)
    with pytest.raises(RoostError, match="nested deeper") as caught:
        rendered(NATIVE, ChatPrompt((HI,), Offer((deep,))))
    assert caught.value.failure.status == 400


_nasty = st.lists(
    st.sampled_from([*CONTROL, "<|im_", "end|>", "<", "|>", '"', "\\", "\n", "é", " ", "\ue000"]),
    max_size=5,
).map("".join)
_json = st.recursive(
    _nasty, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_nasty, inner, max_size=2)
)


@given(
    _nasty, _nasty, st.dictionaries(_nasty, _json, max_size=3), st.sampled_from([CHATML, NATIVE])
)
def test_users_add_no_control_token(
    text: str, name: str, arguments: dict[str, object], template: str
) -> None:
    """Wherever a user's text goes, the pieces hold the template's own control tokens alone."""

    def count(said: str, tool: str, given_: dict[str, object]) -> int:
        encoded = json.dumps(given_, ensure_ascii=False)
        prompt = ChatPrompt(
            (
                Message("system", said),
                Message("user", said, name=tool),
                Message("assistant", said, calls=(ToolCall(said, tool, encoded),)),
                Message("tool", said, call_id=said),
                Message("assistant", said),
            ),
            Offer((Tool(tool, said, encoded),), "required"),
            continues=True,
        )
        pieces = rendered(template, prompt, control=CONTROL).pieces
        return sum(piece.count(token) for piece in pieces for token in CONTROL)

    assert count(text, name, arguments) == count("x", "x", {"x": "x"})


@given(
    st.dictionaries(st.text('ab"\\\n<é', max_size=4), st.text(max_size=8), max_size=3),
    st.sampled_from(["", "So I look.", "a < b"]),
)
def test_what_is_written_is_read_back(arguments: dict[str, str], said: str) -> None:
    """A turn with a call, rendered the generic way and read again, is the same turn."""
    encoded = json.dumps(arguments)
    turn = Message("assistant", said, calls=(ToolCall("call_0", "get_time", encoded),))
    prompt = ChatPrompt((HI, turn, HI), Offer((TIME,)))
    text = text_of(CHATML, prompt).split("<|im_start|>assistant\n")[1]
    written = text.split("<|im_end|>")[0]
    reading = Reading(None, CALL_MARKS, tools=("get_time",))
    assert read_answer(written, reading, Finished("stop", Usage())) == turn
