"""Each reader takes what it promises, and names the field it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.dialects import fields
from roost.dialects.json_body import JsonObject
from roost.errors import RoostError

Reader = Callable[[JsonObject, str], object]

READERS: dict[str, Reader] = {
    "flag": fields.flag,
    "text": fields.text,
    "mapping": fields.mapping,
    "whole": lambda body, name: fields.whole(body, name, -1, 10),
    "endless": lambda body, name: fields.whole(body, name, 0, None),
    "number": lambda body, name: fields.number(body, name, -2, 2),
}


@pytest.mark.parametrize(
    ("reader", "value", "expected"),
    [
        ("flag", True, True),
        ("flag", False, False),
        ("text", "", ""),
        ("mapping", {"a": 1}, {"a": 1}),
        ("mapping", None, {}),
        ("whole", -1, -1),
        ("whole", 10, 10),
        ("whole", 5.0, 5),
        ("endless", 2**70, 2**70),
        ("endless", 1e9, 10**9),
        ("endless", 2.0**53, 2**53),
        ("number", 2, 2.0),
        ("number", -0.5, -0.5),
    ],
)
def test_right_values(reader: str, value: object, expected: object) -> None:
    """A value of the right kind and range is read as it is."""
    found = READERS[reader]({"f": value}, "f")
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("reader", sorted(set(READERS) - {"mapping"}))
def test_null_means_absent(reader: str) -> None:
    """Null and a missing field are the same."""
    assert READERS[reader]({"f": None}, "f") is None
    assert READERS[reader]({}, "f") is None


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        ("flag", 1),
        ("flag", "true"),
        ("text", 5),
        ("text", ["x"]),
        ("mapping", []),
        ("whole", True),
        ("whole", -2),
        ("whole", 11),
        ("whole", 1.5),
        ("whole", "5"),
        ("whole", 2**63),
        ("endless", -1),
        ("endless", 1e308),
        ("endless", float("nan")),
        ("endless", float("inf")),
        ("number", False),
        ("number", "hot"),
        ("number", 2.5),
        ("number", float("nan")),
        ("number", float("-inf")),
        ("number", 10**400),
        ("number", {}),
    ],
)
def test_wrong_values(reader: str, value: object) -> None:
    """Anything else is a 400 with the field as `param` and in the message."""
    with pytest.raises(RoostError, match="'f' must be") as caught:
        READERS[reader]({"f": value}, "f")
    failure = caught.value.failure
    assert (failure.reason, failure.param) == ("bad_request", "f")


def test_messages_say_what_is_wanted() -> None:
    """The range and what was sent are both in the message; nested fields have their path."""
    with pytest.raises(RoostError) as caught:
        fields.number({"temperature": 3}, "temperature", 0, 2)
    assert str(caught.value) == "'temperature' must be a number from 0 to 2, got 3."
    with pytest.raises(RoostError) as caught:
        fields.text({"name": 7}, "name", "messages[2].")
    assert caught.value.failure.param == "messages[2].name"
