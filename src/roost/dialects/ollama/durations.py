"""DECIDER: lengths of time in the two ways that Ollama's clients write them."""

from __future__ import annotations

import re

from roost.dialects import fields
from roost.dialects.json_body import JsonObject
from roost.dialects.stay import FOR_EVER

KEEP_MAX_S = 366 * 86_400.0
"""Longer than this is for ever."""

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})(ns|us|µs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern}){{1,16}}", re.ASCII)
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{0,12})?", re.ASCII)
_WANTED = "a number of seconds, or a text like '5m' or '1h30m'; less than 0 is for ever"


def read_keep_s(sent: JsonObject, name: str = "keep_alive") -> float | None:
    """Read for how long a model is to stay, in seconds; None where nothing is said.

    A number is in seconds, a text has units, or is such a number. Below 0 is `FOR_EVER`. Raises
    `bad_request`.
    """
    value = sent.get(name)
    if value is None or value == "":
        return None
    found = _seconds(value)
    if found is None:
        raise fields.wrong(name, _WANTED, value)
    return FOR_EVER if found < 0 or found > KEEP_MAX_S else found


def _seconds(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        # Compared before it is converted: a large whole number has no float.
        return float(value) if abs(value) <= KEEP_MAX_S else FOR_EVER
    if not isinstance(value, str):
        return None
    text, sign = value.strip(), 1.0
    if text.startswith(("-", "+")):
        sign, text = (-1.0 if text[0] == "-" else 1.0), text[1:]
    if _NUMBER.fullmatch(text):
        return sign * float(text)
    if not _WHOLE.fullmatch(text):
        return None
    return sign * sum(float(count) * _UNITS_S[unit] for count, unit in _PART.findall(text))
