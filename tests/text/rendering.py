"""Short ways to render a conversation, and to cut it where a user wrote a control token."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import msgspec

from roost.core.request import ChatPrompt, Message
from roost.text import templates
from roost.text.chats import Chat
from roost.text.control import ControlTokens
from roost.text.endings import Rendered

TODAY = "2026-03-01"
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CONTROL = ("<|im_start|>", "<|im_end|>")


_compiled = cache(templates.compile)


def rendered(
    template: str,
    prompt: ChatPrompt,
    *,
    control: Iterable[str] = (),
    today: str = TODAY,
    exact: bool = False,
) -> Rendered:
    """Render a prompt with a template, for a model with these control tokens."""
    chat = Chat(_compiled(template), ControlTokens(control), "<s>", "</s>")
    return chat.render(prompt, today, exact=exact)


def text_of(template: str, *messages: Message, today: str = TODAY) -> str:
    """Render plain messages to one text."""
    return "".join(rendered(template, ChatPrompt(messages), today=today).pieces)


def shield(
    messages: tuple[Message, ...], control: ControlTokens
) -> tuple[tuple[Message, ...], str]:
    """Mark the texts of messages; also give the marker."""
    texts = [text for m in messages for text in (m.content, m.name) if text]
    marker = control.marker(texts)
    marked = (
        msgspec.structs.replace(
            m,
            content=control.mark(m.content, marker),
            name=m.name and control.mark(m.name, marker),
        )
        for m in messages
    )
    return tuple(marked), marker
