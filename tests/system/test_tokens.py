"""/tokenize, /detokenize and /apply-template of a live roost."""

from __future__ import annotations

import json

from tests.system.conftest import MODEL, Start
from tests.system.processes import send

HELLO = "naïve 😀 歪 שלום"


def test_prompts_are_told(start: Start) -> None:
    """Tokens and back, what a template makes, and the count of the real call; one process."""
    url = start("serve", "--port", "0", "--backend", "scripted", "--ctx", "512").url()

    def ask(path: str, **fields: object) -> dict[str, object]:
        status, body = send(url, path, {"model": MODEL, **fields})
        assert status == 200, body
        found: dict[str, object] = json.loads(body)
        return found

    bare = ask("/tokenize", content=HELLO)
    assert bare == {"tokens": list(HELLO.encode()), "count": len(HELLO.encode())}
    whole = ask("/v1/tokenize", prompt=HELLO)
    assert whole["tokens"] == [256, *HELLO.encode()]
    assert ask("/detokenize", tokens=bare["tokens"]) == {"content": HELLO, "prompt": HELLO}

    messages = [{"role": "user", "content": HELLO}]
    rendered = ask("/apply-template", messages=messages)["prompt"]
    assert rendered == f"<bos><turn>user\n{HELLO}<end><turn>assistant\n"
    asked = ask("/tokenize", messages=messages)
    said = ask("/v1/chat/completions", messages=messages, max_tokens=1)
    usage = said["usage"]
    assert isinstance(usage, dict)
    assert usage["prompt_tokens"] == asked["count"]

    status, body = send(url, "/tokenize", {"model": MODEL, "content": "x" * 600})
    assert (status, json.loads(body)["error"]["code"]) == (400, "context_length_exceeded")
    status, body = send(url, "/detokenize", {"model": MODEL, "tokens": [10**6]})
    assert status == 400
