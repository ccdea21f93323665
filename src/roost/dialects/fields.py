"""DECIDER: typed readers for the fields of a JSON object; each failure names its field.

`null` means absent everywhere. A boolean is never taken for a number. A whole number may be
written with a fraction of zero (`1e3`, `5.0`), since JSON knows only one kind of number; past 2**53
that form is refused, because it no longer says which number is meant.
"""

from __future__ import annotations

from roost.dialects.json_body import JsonObject, described
from roost.errors import RoostError, fail

_EXACT = 2**53


def wrong(param: str, wanted: str, value: object) -> RoostError:
    """Build the error for a field that has to be `wanted` and is `value`."""
    return fail("bad_request", f"'{param}' must be {wanted}, got {described(value)}.", param=param)


def flag(fields: JsonObject, name: str, path: str = "") -> bool | None:
    """Read a boolean; None where it is absent."""
    value = fields.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise wrong(path + name, "a boolean", value)


def text(fields: JsonObject, name: str, path: str = "") -> str | None:
    """Read a string; None where it is absent."""
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value
    raise wrong(path + name, "a string", value)


def mapping(fields: JsonObject, name: str, path: str = "") -> JsonObject:
    """Read an object; an empty one where it is absent."""
    value = fields.get(name)
    if value is None or isinstance(value, dict):
        return value or {}
    raise wrong(path + name, "an object", value)


def whole(fields: JsonObject, name: str, low: int, high: int | None, path: str = "") -> int | None:
    """Read a whole number from `low` to `high` (None: without end); None where it is absent."""
    value = fields.get(name)
    if value is None:
        return None
    number = _whole(value)
    if number is None or number < low or (high is not None and number > high):
        upper = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise wrong(path + name, f"a whole number {upper}", value)
    return number


def number(fields: JsonObject, name: str, low: float, high: float, path: str = "") -> float | None:
    """Read a finite number from `low` to `high`; None where it is absent."""
    value = fields.get(name)
    if value is None:
        return None
    # The range is compared before converting: a large int has no float, and NaN fails every range.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise wrong(path + name, f"a number from {low:g} to {high:g}", value)
    return float(value)


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return None
