"""Chats with a system message, tools and results fit the templates of every family of models.

The templates are shortened to what makes each family special: whom it lets speak, in which order,
and how a turn begins and ends.
"""

from __future__ import annotations

import pytest

from roost.core.request import ChatPrompt, Message, Offer, Tool, ToolCall
from roost.errors import RoostError
from tests.text.rendering import CHATML, rendered

LLAMA_3 = (
    "{{- bos_token }}{%- for m in messages %}<|start_header_id|>{{ m['role'] }}"
    "<|end_header_id|>\n\n{{ m['content'] | trim }}<|eot_id|>{%- endfor %}"
    "{%- if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{%- endif %}"
)
# No system messages, user and assistant by turns.
GEMMA = (
    "{{ bos_token }}{%- if messages[0].role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{%- endif %}"
    "{%- for m in messages %}{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate') }}{%- endif %}"
    "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}"
    "<end_of_turn>\n{%- endfor %}<start_of_turn>model\n"
)
# By turns too, a system message allowed in front.
MISTRAL = (
    "{{ bos_token }}{%- set ns = namespace(n=0) %}{%- for m in messages %}"
    "{%- if m.role == 'system' and loop.first %}[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT]"
    "{%- else %}{%- if (m.role == 'user') != (ns.n % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate') }}{%- endif %}{%- set ns.n = ns.n + 1 %}"
    "{%- if m.role == 'user' %}[INST]{{ m.content }}[/INST]"
    "{%- else %}{{ m.content }}{{ eos_token }}{%- endif %}{%- endif %}{%- endfor %}"
)
PHI = "{%- for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{%- endfor %}<|assistant|>"
# Thoughts of turns before are cut out of what they said, the next ones are begun.
THINKER = (
    "{%- for m in messages %}{%- if m.role == 'assistant' %}<|Assistant|>"
    "{{ m.content.split('</think>')[-1] }}<|end|>{%- else %}<|{{ m.role | capitalize }}|>"
    "{{ m.content }}{%- endif %}{%- endfor %}<|Assistant|><think>\n"
)
FAMILIES = {
    "chatml": (CHATML, ("<|im_start|>", "<|im_end|>")),
    "llama 3": (LLAMA_3, ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")),
    "gemma": (GEMMA, ("<start_of_turn>", "<end_of_turn>")),
    "mistral": (MISTRAL, ("[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]")),
    "phi": (PHI, ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")),
    "thinker": (THINKER, ("<|User|>", "<|Assistant|>", "<|System|>", "<|end|>")),
}
families = pytest.mark.parametrize("family", FAMILIES)
CALLS = (ToolCall("a", "look", '{"at":1}'), ToolCall("b", "look", '{"at":2}'))
TURNS = (
    Message("system", "Be kind."),
    Message("user", "Look twice."),
    Message("assistant", "", calls=CALLS),
    Message("tool", "one tree", call_id="a"),
    Message("tool", "two trees", call_id="b"),
    Message("user", "And now?"),
)
OFFER = Offer((Tool("look", "Looks.", '{"type":"object"}'),))


@families
def test_a_chat_with_tools(family: str) -> None:
    """Everything that was said is in the prompt, in order, and nobody speaks out of turn."""
    template, control = FAMILIES[family]
    text = "".join(rendered(template, ChatPrompt(TURNS, OFFER), control=control).pieces)
    said = ("Be kind.", "# Tools", "Look twice.", '"arguments": {"at":1}', '"arguments": {"at":2}')
    places = [text.index(words) for words in (*said, "one tree", "two trees", "And now?")]
    if family == "gemma":
        # Its user is told first of the tools, then what the system says.
        places[:2] = reversed(places[:2])
    assert places == sorted(places)


@families
def test_a_plain_chat(family: str) -> None:
    """Without tools nothing is added to what was said."""
    template, control = FAMILIES[family]
    plain = (TURNS[0], TURNS[1], Message("assistant", "Yes."), TURNS[-1])
    text = "".join(rendered(template, ChatPrompt(plain), control=control).pieces)
    assert "tool" not in text.lower()
    assert text.index("Be kind.") < text.index("Look twice.") < text.index("Yes.")


@families
def test_a_begun_answer(family: str) -> None:
    """The prompt ends with the beginning, where thoughts are begun with those ended before it."""
    template, control = FAMILIES[family]
    turns = (TURNS[1], Message("assistant", "So far"))
    text = "".join(rendered(template, ChatPrompt(turns, continues=True), control=control).pieces)
    assert text.endswith("<think>\n\n</think>\n\nSo far" if family == "thinker" else "So far")


def test_what_a_template_refuses_is_the_callers() -> None:
    """Two users in a row are a 400 in the template's own words, where a template minds."""
    two = ChatPrompt((Message("user", "a"), Message("user", "b")))
    with pytest.raises(RoostError, match="Roles must alternate") as caught:
        rendered(GEMMA, two)
    assert caught.value.failure.status == 400


def test_system_messages_anywhere() -> None:
    """Where a template has none, each is told to the next user, and the last one stands alone."""
    turns = (
        *(Message("user", "a"), Message("assistant", "b"), Message("system", "s1")),
        *(Message("user", "c"), Message("assistant", "d"), Message("system", "s2")),
    )
    text = "".join(rendered(GEMMA, ChatPrompt(turns)).pieces)
    assert "user\ns1\n\nc<" in text
    assert "user\ns2<" in text
