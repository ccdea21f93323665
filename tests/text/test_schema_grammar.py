"""Schemas become grammars: their texts are valid, and what cannot be said is refused by name."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.request import Grammar, JsonAny, JsonSchema
from roost.errors import RoostError
from roost.text.constraints import rules_of
from roost.text.gbnf import Rules
from roost.text.gbnf_match import matches, shortest

NODE = {
    "type": "object",
    "properties": {
        "v": {"type": "integer"},
        "kids": {"type": "array", "items": {"$ref": "#/$defs/n"}},
    },
    "required": ["v", "kids"],
}
PETS = {
    "$defs": {
        "Cat": {
            "properties": {
                "kind": {"const": "cat", "type": "string"},
                "lives": {"type": "integer"},
            },
            "required": ["kind", "lives"],
            "title": "Cat",
            "type": "object",
        },
        "Dog": {"properties": {"kind": {"const": "dog"}}, "required": ["kind"], "type": "object"},
    },
    "properties": {
        "pet": {"oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "tags": {"items": {"type": "string"}, "type": "array", "maxItems": 2},
    },
    "required": ["pet"],
    "type": "object",
}
CASES: list[tuple[object, list[str], list[str]]] = [
    (
        {},
        ["1", '{"a": [1, "x", null]}', '"\\u00e4\\n"', "-1.5e+10"],
        ["", "01", "[1,2]", '"\\ud800"'],
    ),
    ({"type": "object"}, ["{}", '{"a": {"b": true}}'], ["[]", "1", '{"a"}']),
    ({"type": "boolean"}, ["true", "false"], ["null", "1"]),
    ({"type": ["string", "null"]}, ['"x"', "null"], ["1"]),
    (
        {"enum": ["red", "rose", 1, 10, None, {"a": [1, 2]}]},
        ['"red"', "1", "10", '{"a": [1, 2]}'],
        ['"ro"', "100"],
    ),
    ({"enum": ["a", 1, True], "type": "string"}, ['"a"'], ["1", "true"]),
    ({"const": 'say "hi"\n'}, ['"say \\"hi\\"\\n"'], ['"say"']),
    (
        {"type": "string", "minLength": 2, "maxLength": 3},
        ['"ab"', '"ab\\n"', '"äöü"'],
        ['"a"', '"abcd"'],
    ),
    ({"type": "string", "maxLength": 0}, ['""'], ['"a"']),
    ({"type": "string", "format": "date"}, ['"2026-11-30"'], ['"2026-13-30"', '"x"']),
    (
        {"type": "string", "format": "date-time"},
        ['"2026-11-30T23:59:59.5Z"', '"2026-11-30T00:00:00+01:00"'],
        ['"2026-11-30"'],
    ),
    ({"type": "string", "format": "uuid"}, ['"0e1c2a3b-0000-4000-8000-00000000000f"'], ['"0e1c"']),
    ({"type": "string", "format": "email"}, ['"anything"'], []),
    ({"type": "string", "pattern": "^[a-z]{2,4}$"}, ['"ab"', '"abcd"'], ['"a"', '"abcde"', '"AB"']),
    ({"type": "string", "pattern": "^(a|bc)+\\d?\\.x$"}, ['"abc1.x"', '"a.x"'], ['"1.x"', '"ayx"']),
    ({"type": "string", "pattern": "^\\w+@[a-z]+\\."}, ['"me@x.y"'], ['"@x."', '"me@."']),
    ({"type": "string", "pattern": '^"\\\\$'}, ['"\\"\\\\"'], ['""']),
    (
        {"type": "integer", "minimum": -3, "maximum": 12},
        ["-3", "-1", "0", "9", "10", "12"],
        ["-4", "13", "1.0", "-0", "00"],
    ),
    ({"type": "integer", "exclusiveMinimum": 98}, ["99", "100", "12345"], ["98", "9", "-99"]),
    ({"type": "integer", "maximum": -10}, ["-10", "-999"], ["-9", "10", "0"]),
    ({"type": "number", "minimum": 0, "maximum": 1}, ["0", "1", "0.25"], ["1.5", "-0.5", "2"]),
    (
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        ["0.5", "0.001"],
        ["0", "1", "0.0", "0.000", "-0.1"],
    ),
    (
        {"type": "number", "minimum": -2.5, "maximum": -0.5},
        ["-2", "-1", "-1.75"],
        ["0", "-3", "-2.7", "-0.25", "1"],
    ),
    (
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        ["[1]", "[1, 2]"],
        ["[]", "[1, 2, 3]", "[true]"],
    ),
    ({"type": "array", "items": False}, ["[]"], ["[1]"]),
    ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
    ({"prefixItems": [{"type": "integer"}, {"type": "string"}]}, ['[1, "a"]'], ["[1]", '["a", 1]']),
    (
        {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
        ["{}", '{"a": 1}'],
        ['{"a": "b"}', '{"a": 1, "b": 2}'],
    ),
    ({"type": "object", "additionalProperties": False}, ["{}"], ['{"a": 1}']),
    (
        {"properties": {"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}}},
        ["{}", '{"b": null}', '{"a": null, "c": null}'],
        ['{"b": null, "a": null}', "{,}"],
    ),
    (
        {"properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["b", "z"]},
        ['{"b": null, "z": 1}', '{"a": null, "b": null, "z": []}'],
        ['{"a": null, "z": 1}'],
    ),
    (
        {"$defs": {"n": NODE}, "$ref": "#/$defs/n"},
        ['{"v": 1, "kids": [{"v": 2, "kids": []}]}'],
        ['{"v": 1}'],
    ),
    (
        PETS,
        [
            '{"pet": {"kind": "cat", "lives": 9}, "note": null}',
            '{"pet": {"kind": "dog"}, "tags": ["a", "b"]}',
        ],
        ['{"pet": {"kind": "cow"}}'],
    ),
    (
        {
            "allOf": [
                {"properties": {"a": {"type": "null"}}},
                {"properties": {"b": {"type": "null"}}, "required": ["b"]},
            ],
            "type": "object",
        },
        ['{"b": null}', '{"a": null, "b": null}'],
        ["{}"],
    ),
    (
        {
            "type": "object",
            "anyOf": [
                {"properties": {"a": {}}, "required": ["a"]},
                {"properties": {"b": {}}, "required": ["b"]},
            ],
        },
        ['{"a": 1}', '{"b": 1}'],
        ["{}"],
    ),
    ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, ["1", "1.5"], ['"1"']),
    ({"definitions": {"a/b": {"const": 1}}, "$ref": "#/definitions/a~1b"}, ["1"], ["2"]),
]


def rules(schema: object) -> Rules:
    """Give the grammar of a schema."""
    return rules_of(JsonSchema(json.dumps(schema)))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_texts_are_valid(case: int) -> None:
    """What is valid fits, what is not does not, and the shortest text is JSON."""
    schema, good, bad = CASES[case]
    found = rules(schema)
    for text in good:
        assert matches(found, text), text
        json.loads(text)
    for text in bad:
        assert not matches(found, text), text
    least = shortest(found)
    assert least is not None
    json.loads(least)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        ("[" * 10_000, "no JSON"),
        ("5", "an object, true or false"),
        ("false", "nothing is valid"),
        ('{"type": "wibble"}', "'type' is one or more of"),
        ('{"type": []}', "'type' is one or more of"),
        ('{"type": {"a": 1}}', "'type' is one or more of"),
        ('{"enum": []}', "'enum' is a list of 1 to 500"),
        ('{"enum": [1], "type": "string"}', "has the type"),
        ('{"properties": [1]}', "'properties' is"),
        ('{"properties": {"a": {}}, "required": 5}', "'required' is a list"),
        ('{"required": ["a"], "additionalProperties": false}', "is required and not allowed"),
        ('{"$ref": "#/x"}', "nothing at #/x"),
        ('{"allOf": []}', "'allOf' is a list"),
        ('{"anyOf": []}', "'anyOf' is a list"),
        ('{"minLength": -1}', "not below 0"),
        ('{"minLength": 1.5}', "a whole number"),
        ('{"minLength": 3, "maxLength": 2}', "'maxLength' is below"),
        ('{"type": "integer", "minimum": 5, "maximum": 4}', "no whole number"),
        ('{"type": "integer", "minimum": 0.2, "maximum": 0.8}', "no whole number"),
        ('{"minimum": "a"}', "'minimum' is a number"),
        ('{"pattern": 5}', "'pattern' is a text"),
        ('{"prefixItems": 5}', "'prefixItems' is a list"),
        ('{"items": [{}]}', "'items' is one"),
        ('{"a": ' * 60 + "1" + "}" * 60, "an object, true or false|0"),
        ('{"type":"array","items":' * 40 + "{}" + "}" * 40, "levels deep"),
        ('{"properties": {"a": {"$ref": "#"}}, "required": ["a"]}', "No answer that ends"),
    ],
)
def test_what_is_no_schema_is_refused(text: str, why: str) -> None:
    """A schema that says nothing sensible is the caller's mistake, and the message says where."""
    if "0" in why.split("|"):
        # Unknown words are passed over, however deep they are.
        assert rules_of(JsonSchema(text))
        return
    with pytest.raises(RoostError, match=why) as caught:
        rules_of(JsonSchema(text))
    failure = caught.value.failure
    assert (failure.reason, failure.param) == ("bad_request", "response_format")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"not": {}}, "'not'"),
        ({"type": "object", "patternProperties": {}}, "'patternProperties'"),
        ({"type": "array", "uniqueItems": True}, "'uniqueItems'"),
        ({"type": "integer", "multipleOf": 5}, "'multipleOf'"),
        ({"type": "string", "maxLength": 1001}, "'maxLength' above 1000"),
        ({"type": "integer", "maximum": 10**16}, "15 digits"),
        ({"type": "number", "minimum": 0.2, "maximum": 0.8}, "without whole numbers"),
        ({"$ref": "https://example.com"}, "something outside"),
        ({"$ref": "#", "minLength": 1}, "'minLength' beside"),
        ({"$ref": "#"}, "begins with itself"),
        ({"enum": [1], "anyOf": [{}]}, "'anyOf' beside 'enum'"),
        ({"anyOf": [{"$ref": "#/x"}], "type": "string"}, "'type' beside"),
        ({"anyOf": [{"type": "null"}], "type": "string"}, "'type' beside"),
        ({"allOf": [{"minLength": 1}, {"minLength": 2}]}, "different 'minLength'"),
        ({"properties": {"a": {}}, "minProperties": 1}, "'minProperties'"),
        ({"prefixItems": [{}], "minItems": 2}, "another number of items"),
        ({"pattern": "a"}, "does not begin with"),
        ({"pattern": "^a", "maxLength": 5}, "a length beside"),
        ({"pattern": "^(?=a)b$"}, "look ahead"),
        ({"pattern": "^(a$"}, "not closed"),
        ({"pattern": "^a|b$"}, "a choice outside"),
        ({"pattern": "^a$b"}, "behind its end"),
        ({"pattern": "^[b-a]$"}, "class of no characters"),
        ({"pattern": "^[a"}, "too early"),
        ({"pattern": "^a**$"}, "in this place"),
        ({"pattern": "^\\bx$"}, r"'\\b'"),
        ({"pattern": "^a{2000}$"}, "at most 1000 times"),
        ({"pattern": "^([a-z]?[a-z]?)*$"}, "may be empty"),
        ({"pattern": "^(a+)+$"}, "nobody can tell"),
        ({"pattern": "^" + "(" * 40}, "within more than 32"),
        ({"pattern": "^" + "a" * 1000}, "longer than"),
    ],
)
def test_what_no_grammar_can_say_is_refused(schema: object, why: str) -> None:
    """A valid schema that cannot be held to is refused as that, by the word that cannot."""
    with pytest.raises(RoostError, match=why) as caught:
        rules(schema)
    failure = caught.value.failure
    assert (failure.reason, failure.param) == ("unsupported", "response_format")


def test_too_long_and_too_tangled() -> None:
    """A schema has a longest length, and references a deepest depth."""
    with pytest.raises(RoostError, match="65536 are read"):
        rules_of(JsonSchema(" " * 65_537))
    chain: dict[str, object] = {
        f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(1000)
    }
    with pytest.raises(RoostError, match="too deep"):
        rules({"$defs": chain | {"d1000": {}}, "$ref": "#/$defs/d0"})


def test_any_object() -> None:
    """JSON without a schema is an object."""
    found = rules_of(JsonAny())
    assert matches(found, '{"a": [1, {"b": null}]}')
    assert not matches(found, "[]")
    assert shortest(found) == "{}"


def test_a_grammar_without_an_end_is_refused() -> None:
    """A grammar none of whose texts ends is refused, with its own field."""
    with pytest.raises(RoostError, match="No answer that ends") as caught:
        rules_of(Grammar('root ::= "a" root'))
    assert caught.value.failure.param == "grammar"


BOUNDS = st.one_of(st.none(), st.integers(-200, 200))


@settings(max_examples=40, deadline=None)
@given(BOUNDS, BOUNDS, st.lists(st.integers(-250, 250), min_size=5, max_size=5))
def test_ranges_are_exact(least: int | None, most: int | None, tried: list[int]) -> None:
    """A whole number fits exactly where it is within its range."""
    schema = {"type": "integer", "minimum": least, "maximum": most}
    schema = {name: value for name, value in schema.items() if value is not None}
    low, high = -math.inf if least is None else least, math.inf if most is None else most
    if low > high:
        with pytest.raises(RoostError):
            rules(schema)
        return
    found = rules(schema)
    edges = [edge + step for edge in (least, most) if edge is not None for step in (-1, 0, 1)]
    for number in (*tried, *edges):
        assert matches(found, str(number)) == (low <= number <= high), number


NUMBERS = st.one_of(st.none(), st.integers(-30, 30), st.integers(-300, 300).map(lambda n: n / 10))


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    st.lists(st.integers(-3500, 3500), min_size=8, max_size=8),
)
def test_fractions_are_within_their_range(ends: tuple[float | None, ...], tried: list[int]) -> None:
    """A number that fits is within its range, whichever ends that has."""
    names = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    schema = {name: end for name, end in zip(names, ends, strict=True) if end is not None}
    try:
        found = rules(schema | {"type": "number"})
    except RoostError:
        return
    edges = [round(end + step / 10, 1) for end in ends if end is not None for step in (-1, 0, 1)]
    for number in (*edges, *(one / 100 for one in tried)):
        if matches(found, repr(number).removesuffix(".0")):
            assert schema.get("minimum", number) <= number <= schema.get("maximum", number)
            assert schema.get("exclusiveMinimum", -math.inf) < number
            assert number < schema.get("exclusiveMaximum", math.inf)
