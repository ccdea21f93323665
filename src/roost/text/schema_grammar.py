"""DECIDER: a JSON Schema becomes a grammar whose every text is valid under it.

Not every valid text is one of the grammar's: objects have the properties that the schema names, in
its order, and one way of spacing. What a grammar cannot say is refused and never left out in
silence; what only describes (`title`, `default`, unknown formats and words) is passed over.
"""

from __future__ import annotations

import json
import re
from itertools import groupby

import msgspec

from roost.text import schema_scalars as scalars
from roost.text.gbnf import ROOT, Alt, Node, Ref, Repeat, Rules, literal, optional, seq
from roost.text.schema_pattern import read_pattern
from roost.text.schema_words import (
    NOT_SAID,
    SAYS,
    TYPES,
    Schema,
    bounds,
    counts,
    is_of,
    joined,
    kinds_of,
    typed_option,
    unsaid,
    wrong,
)

SCHEMA_CHARS_MAX = 64 * 1024
DEPTH_MAX = 32
ENUM_MAX = 500


def any_object() -> Rules:
    """Write the grammar of every JSON object."""
    compiler = _Compiler({})
    return compiler.rules | {ROOT: compiler.mapping({}, Ref(compiler.anything()))}


def read_schema(text: str) -> Rules:
    """Write the grammar of a schema.

    Raises `bad_request` for what is no schema, `unsupported` for what a grammar cannot say.
    """
    if len(text) > SCHEMA_CHARS_MAX:
        raise wrong(f"it has {len(text)} characters, {SCHEMA_CHARS_MAX} are read")
    try:
        schema = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise wrong("it is no JSON") from None
    compiler = _Compiler(schema)
    try:
        root = compiler.node(schema, "")
    except RecursionError:
        raise wrong("its references lead too deep") from None
    return compiler.rules | {ROOT: root}


class _Compiler:
    """Collects rules while it walks through a schema; `path` is where it is, for people."""

    def __init__(self, whole: object) -> None:
        self.rules: Rules = {}
        self._whole = whole
        self._refs: dict[str, str] = {}

    def node(self, schema: object, path: str) -> Node:
        """Write what is valid under a schema."""
        if path.count("/") > DEPTH_MAX:
            raise wrong(f"it is more than {DEPTH_MAX} levels deep", path[:60])
        if schema is True or schema == {}:
            return Ref(self.anything())
        if schema is False:
            raise wrong("nothing is valid under 'false'", path)
        if not isinstance(schema, dict):
            raise wrong("a schema is an object, true or false", path)
        for name in NOT_SAID:
            if name in schema and not (name.startswith("unevaluated") and schema[name] is False):
                raise unsaid(f"'{name}'", path)
        return self._of(schema, path)

    def _of(self, schema: Schema, path: str) -> Node:
        if "allOf" in schema:
            return self.node(self._merged(schema, path), path)
        if "$ref" in schema:
            self._alone(schema, path, "$ref")
            return self._referred(schema["$ref"], path)
        for name in ("const", "enum"):
            if name in schema:
                return self._fixed(schema, name, path)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                return self._either(schema, name, path)
        kinds = kinds_of(schema, path)
        if not kinds:
            return Ref(self.anything())
        return _choice([self._typed(kind, schema, path) for kind in kinds])

    def _typed(self, kind: str, schema: Schema, path: str) -> Node:
        if kind == "object":
            return self._object(schema, path)
        if kind == "array":
            return self._array(schema, path)
        if kind == "string":
            return self._string(schema, path)
        if kind in ("number", "integer"):
            return _number(schema, path, whole=kind == "integer")
        return scalars.BOOLEAN if kind == "boolean" else scalars.NULL

    def _alone(self, schema: Schema, path: str, name: str, *others: str) -> None:
        beside = sorted(SAYS & schema.keys() - {name, *others})
        if beside:
            raise unsaid(f"'{beside[0]}' beside '{name}'", path)

    def _referred(self, ref: object, path: str) -> Node:
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise unsaid("a '$ref' to something outside", path)
        if ref not in self._refs:
            # The name is known before the rule is there: a schema may contain itself.
            self._refs[ref] = name = self._new(ref)
            self.rules[name] = self.node(self._found(ref, path), ref)
        return Ref(self._refs[ref])

    def _found(self, ref: str, path: str) -> object:
        found = self._whole
        for step in ref.removeprefix("#").split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                raise wrong(f"there is nothing at {ref[:100]}", path)
        return found

    def _merged(self, schema: Schema, path: str) -> Schema:
        """Make one schema of those that all have to hold, where no two say different things."""
        parts = schema["allOf"]
        if not isinstance(parts, list) or not parts:
            raise wrong("'allOf' is a list of schemas", path)
        out = {name: value for name, value in schema.items() if name != "allOf"}
        for part in parts:
            while isinstance(part, dict) and part.keys() & SAYS == {"$ref"}:
                ref = part["$ref"]
                part = self._found(ref, path) if isinstance(ref, str) else None  # noqa: PLW2901
            if not isinstance(part, dict):
                raise wrong("'allOf' is a list of schemas", path)
            out = joined(out, part, path)
        return out

    def _fixed(self, schema: Schema, name: str, path: str) -> Node:
        values = schema[name] if name == "enum" else [schema[name]]
        if not isinstance(values, list) or not 0 < len(values) <= ENUM_MAX:
            raise wrong(f"'enum' is a list of 1 to {ENUM_MAX} values", path)
        self._alone(schema, path, name, "type")
        kinds = kinds_of(schema, path) or TYPES
        texts = {json.dumps(one, ensure_ascii=False): one for one in values}
        good = [text for text, one in texts.items() if is_of(one, kinds)]
        if not good:
            raise wrong(f"no value of '{name}' has the type", path)
        return self._any_of(sorted(good), path)

    def _any_of(self, texts: list[str], path: str) -> Node:
        """One of these texts, which are in order: those that begin alike share their beginning."""
        first, last = texts[0], texts[-1]
        shared = next((n for n, char in enumerate(first) if char != last[n]), len(first))
        if len(texts) == 1:
            return literal(first)
        groups = groupby((text[shared:] for text in texts), lambda text: text[:1])
        options = [self._any_of(list(group), path) for _, group in groups]
        return seq(literal(first[:shared]), self._rule(_one(options), f"{path}/rest"))

    def _string(self, schema: Schema, path: str) -> Node:
        least, most = counts(schema, "Length", path)
        pattern = schema.get("pattern")
        if pattern is not None:
            if not isinstance(pattern, str):
                raise wrong("'pattern' is a text", path)
            if least or most is not None:
                raise unsaid("a length beside 'pattern'", path)
            return scalars.quoted(read_pattern(pattern))
        form = schema.get("format")
        known = scalars.FORMATS.get(form) if isinstance(form, str) else None
        if known is not None:
            return scalars.quoted(known)
        limited = least or most is not None
        return scalars.string(self._char(), least, most) if limited else self.text()

    def _either(self, schema: Schema, name: str, path: str) -> Node:
        parts = schema[name]
        if not isinstance(parts, list) or not parts:
            raise wrong(f"'{name}' is a list of schemas", path)
        self._alone(schema, path, name, "type")
        if "type" in schema:
            parts = [typed_option(one, schema, path) for one in parts]
        return _choice([self.node(one, f"{path}/{name}/{n}") for n, one in enumerate(parts)])

    def _object(self, schema: Schema, path: str) -> Node:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        if not isinstance(properties, dict):
            raise wrong("'properties' is an object of schemas", path)
        if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
            raise wrong("'required' is a list of names", path)
        more = schema.get("additionalProperties", True)
        unnamed = [one for one in required if one not in properties]
        if unnamed and more is False:
            raise wrong(f"'{unnamed[0][:50]}' is required and not allowed", path)
        fields = properties | dict.fromkeys(unnamed, more)
        if not fields:
            pair = None if more is False else self.node(more, f"{path}/additionalProperties")
            return self.mapping(schema, pair, path)
        least, most = counts(schema, "Properties", path)
        if least > len(set(required)) or (most is not None and most < len(fields)):
            raise unsaid("'minProperties' and 'maxProperties' beside 'properties'", path)
        return self._members(fields, set(required), path)

    def _members(self, fields: Schema, required: set[str], path: str) -> Node:
        """Write properties in order: behind each comes one that may be next, or the end."""
        last = max((at for at, name in enumerate(fields) if name in required), default=-1)
        rest: Node = literal("}")
        following: Node | None = None
        for at, name in reversed(list(enumerate(fields))):
            pair = self._pair(name, fields[name], path)
            one: Node = seq(pair, self._rule(rest, f"{path}/{name}/after"))
            if following is not None and name not in required:
                one = Alt((one, following), sealed=True)
            following = self._rule(one, f"{path}/{name}/from")
            more = seq(literal(", "), following)
            rest = more if at <= last else Alt((more, literal("}")))
        assert following is not None, "there are properties"
        return seq(literal("{"), following if last >= 0 else Alt((following, literal("}"))))

    def _pair(self, name: str, schema: object, path: str) -> Node:
        key = literal(json.dumps(name, ensure_ascii=False) + ": ")
        return self._rule(seq(key, self.node(schema, f"{path}/{name}")), f"{path}/{name}")

    def mapping(self, schema: Schema, value: Node | None, path: str = "") -> Node:
        """Write an object of any names, each with this value; None for an empty one."""
        least, most = counts(schema, "Properties", path)
        if value is None:
            return literal("{}")
        pair = self._rule(seq(self.text(), literal(": "), value), f"{path}/pair")
        return seq(literal("{"), _listed(pair, least, most), literal("}"))

    def _array(self, schema: Schema, path: str) -> Node:
        first = schema.get("prefixItems", [])
        if schema.get("uniqueItems") is True:
            raise unsaid("'uniqueItems'", path)
        if not isinstance(first, list) or isinstance(schema.get("items"), list):
            raise wrong("'prefixItems' is a list of schemas, and 'items' is one", path)
        least, most = counts(schema, "Items", path)
        begun = [self.node(one, f"{path}/prefixItems/{n}") for n, one in enumerate(first)]
        if begun:
            return self._tuple(begun, least, most, path)
        more = schema.get("items", True)
        if more is False or most == 0:
            return literal("[]")
        item = self._rule(self.node(more, f"{path}/items"), f"{path}/items")
        return seq(literal("["), _listed(item, least, most), literal("]"))

    def _tuple(self, begun: list[Node], least: int, most: int | None, path: str) -> Node:
        """Exactly the items that are named one by one, which is always a valid number of them."""
        if least > len(begun) or (most is not None and most < len(begun)):
            raise unsaid("another number of items than in 'prefixItems'", path)
        parts = [part for one in begun for part in (literal(", "), one)]
        return seq(literal("["), *parts[1:], literal("]"))

    def _rule(self, node: Node, path: str) -> Ref:
        name = self._new(path)
        self.rules[name] = node
        return Ref(name)

    def _new(self, path: str) -> str:
        """Find a name that tells where it is from; it is taken from now on."""
        base = re.sub("[^A-Za-z0-9]+", "-", path).strip("-")[-40:] or "part"
        return f"{base}-{len(self.rules) + len(self._refs)}"

    def text(self) -> Ref:
        """The rule of any string."""
        self.rules.setdefault("string", scalars.string(self._char()))
        return Ref("string")

    def _char(self) -> Ref:
        self.rules.setdefault("char", scalars.CHAR)
        return Ref("char")

    def anything(self) -> str:
        """Name the rule of any JSON value."""
        if "value" not in self.rules:
            value = Ref("value")
            self.rules["value"] = value
            pair = seq(self.text(), literal(": "), value)
            several = [_listed(one, 0, None) for one in (pair, value)]
            whole = [
                seq(literal(ends[0]), inner, literal(ends[1]))
                for ends, inner in zip(("{}", "[]"), several, strict=True)
            ]
            plain = (self.text(), scalars.NUMBER, scalars.BOOLEAN, scalars.NULL)
            self.rules["value"] = Alt((*whole, *plain))
        return "value"


def _one(nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Alt(tuple(nodes), sealed=True)


def _choice(nodes: list[Node]) -> Node:
    """Any of these.

    No text of JSON is the beginning of another but for numbers, which go on in digits, and nothing
    behind a value does.
    """
    return _one(list(dict.fromkeys(nodes)))


def _listed(item: Node, least: int, most: int | None) -> Node:
    """So many of these with commas between them."""
    if most == 0:
        return seq()
    more = Repeat(seq(literal(", "), item), max(0, least - 1), None if most is None else most - 1)
    some = item if more.most == 0 else seq(item, more)
    return some if least else optional(some)


def _number(schema: Schema, path: str, *, whole: bool) -> Node:
    within = bounds(schema, path)
    if not whole:
        found = scalars.number(within)
        if found is None:
            raise unsaid("a range without whole numbers", path)
        return found
    low, high = within.whole()
    if low is not None and high is not None and low > high:
        raise wrong("no whole number is in its range", path)
    return scalars.integer(low, high)
