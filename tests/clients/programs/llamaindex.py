"""SHELL: LlamaIndex's client of servers like OpenAI's: chats and completions, both ways."""

from __future__ import annotations

from importlib import import_module

from tests.clients.programs.asking import KEY, MODEL, MOST, PIECES, URL, check_text, saying

like = import_module("llama_index.llms.openai_like").OpenAILike
message = import_module("llama_index.core.llms").ChatMessage
shared = {"model": MODEL, "api_base": f"{URL}/v1", "api_key": KEY, "max_tokens": MOST}

chat = like(is_chat_model=True, max_retries=0, timeout=120.0, **shared)
asked = [message(role="user", content=saying(PIECES))]
check_text(chat.chat(asked).message.content)
check_text("".join(piece.delta or "" for piece in chat.stream_chat(asked)))

text = like(is_chat_model=False, max_retries=0, timeout=120.0, **shared)
check_text(text.complete(saying(PIECES)).text)
check_text("".join(piece.delta or "" for piece in text.stream_complete(saying(PIECES))))
