"""SHELL: what every client program here is told, and how its answers are checked.

A program is run as `python PROGRAM URL MODEL KIND` by the interpreter of whatever environment has
its library, with keys in CLIENT_KEY and ONE_AT_ONCE_KEY; it ends with 0 where all is as it should.
"""

from __future__ import annotations

import json
import os
import sys

URL, MODEL, KIND = sys.argv[1:4]
KEY, ONE_AT_ONCE = os.environ["CLIENT_KEY"], os.environ["ONE_AT_ONCE_KEY"]
SCRIPTED = KIND == "scripted"
# A real model has said enough after a few tokens.
MOST = 64 if SCRIPTED else 8
TEXT = "naïve 😀 歪 שלום"
PIECES = ["naïve ", "😀 ", "歪 ", "שלום"]
CALL = ['<tool_call>{"name": "weather", "arguments": {"city": "', 'naïve 😀"}}</tool_call>']
CITY = {"city": "naïve 😀"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OVERFLOW = "word " * 20_000


def saying(pieces: list[str], **more: object) -> str:
    """Ask the scripted backend to say this; a real model says whatever it likes."""
    return f"@script {json.dumps({'pieces': pieces, **more})}" if SCRIPTED else "Say hello."


TALE = saying(["word "] * 200, delay_ms=50) if SCRIPTED else "Tell a very long story of a fox."


def check_text(text: object) -> None:
    """Check that an answer is the one that was asked for, or any at all of a real model."""
    assert isinstance(text, str)
    assert text == TEXT if SCRIPTED else text, text
