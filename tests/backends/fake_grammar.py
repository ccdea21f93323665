"""Grammars for the fake llama.cpp server: a small reading of GBNF and its shortest text.

It knows nothing of the project, as the real server does not, and reads what that one reads.
"""

from __future__ import annotations

import re

WORDS = re.compile(
    r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{\d+,?\d*\}|[A-Za-z][\w-]*|::=|[()|*+?\n]'
)
ESCAPE = re.compile(r"\\(?:x(..)|u(....)|U(........)|(.))")


class Grammar:
    """One grammar; raises `ValueError` where it is none."""

    def __init__(self, text: str) -> None:
        self.rules: dict[str, list[str]] = {}
        for line in text.strip().split("\n"):
            name, _, body = line.partition(" ::= ")
            self.rules[name] = WORDS.findall(body)
        if "root" not in self.rules:
            raise ValueError("no root")
        self.known: dict[str, str] = {}

    def shortest(self) -> str:
        """Give a shortest text, by trying until no rule gets a shorter one."""
        before: dict[str, str] | None = None
        while before != self.known:
            before = dict(self.known)
            for name, words in self.rules.items():
                found = self._choice(list(words))
                if found is not None and len(found) < len(self.known.get(name, found + " ")):
                    self.known[name] = found
        return self.known["root"]

    def _choice(self, words: list[str]) -> str | None:
        found: list[str] = []
        while True:
            text = self._sequence(words)
            found += [] if text is None else [text]
            if not words or words.pop(0) == ")":
                return min(found, key=len, default=None)

    def _sequence(self, words: list[str]) -> str | None:
        text: str | None = ""
        while words and words[0] not in ("|", ")"):
            one = self._times(self._item(words.pop(0), words), words)
            text = None if text is None or one is None else text + one
        return text

    def _item(self, word: str, words: list[str]) -> str | None:
        if word == "(":
            return self._choice(words)
        if word[0] == '"':
            return plain(word[1:-1])
        if word[0] == "[":
            return plain(word[1:-1])[0]
        if word not in self.rules:
            raise ValueError(f"no rule {word}")
        return self.known.get(word)

    def _times(self, one: str | None, words: list[str]) -> str | None:
        sign = words[0] if words else ""
        if sign in ("*", "?", "+") or sign[:1] == "{":
            words.pop(0)
            least = int(re.findall(r"\d+", sign)[0]) if sign[0] == "{" else int(sign == "+")
            return "" if least == 0 else None if one is None else one * least
        return one


def plain(text: str) -> str:
    """Undo escapes."""
    return ESCAPE.sub(lambda m: m[4] or chr(int(m[1] or m[2] or m[3], 16)), text)
