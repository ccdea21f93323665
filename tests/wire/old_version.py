"""What a peer of version 1 makes of a message, by the schema of that version's own messages.

`link_v1.schema.json` was written by the last release that spoke version 1, and is never rewritten:
what an old peer understands does not change. `link_v1.jsonl` has frames that it sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast

import msgspec

from roost.core.ids import NodeId
from roost.wire.codec import decode_from_gateway, decode_from_node, encode
from roost.wire.memory import NodeConnection
from roost.wire.messages import FromGateway, FromNode, Hello, Welcome

Side = Literal["node", "gateway"]
Schema = Mapping[str, object]
HERE = Path(__file__).parent
SCHEMAS: dict[str, dict[str, dict[str, object]]] = json.loads(
    (HERE / "link_v1.schema.json").read_text("utf-8")
)


class NotUnderstoodError(Exception):
    """A peer of version 1 would close the link."""


class Frame(msgspec.Struct):
    """One frame that a peer of version 1 sent, and what it meant."""

    kind: str
    hex: str
    value: dict[str, object]
    sender: str = msgspec.field(name="from")


def recorded() -> list[Frame]:
    """List the frames."""
    lines = (HERE / "link_v1.jsonl").read_text("utf-8").splitlines()
    return [msgspec.json.decode(line, type=Frame) for line in lines]


def as_heard(side: Side, message: FromNode | FromGateway) -> dict[str, object]:
    """Return what is left of a message at a peer of version 1, to which this `side` says it."""
    raw = msgspec.msgpack.decode(encode(message), type=dict[str, object])
    kinds = cast("dict[str, str]", SCHEMAS[side]["kinds"])
    kind = str(raw["type"])
    if kind not in kinds:
        raise NotUnderstoodError(kind)
    heard = _fitted(SCHEMAS[side]["types"], {"$ref": kinds[kind]}, raw)
    return cast("dict[str, object]", heard)


def _fitted(types: Schema, schema: Schema, value: object) -> object:
    """Leave out fields that the schema has not; refuse what it does not allow."""
    if "$ref" in schema:
        return _fitted(types, cast("Schema", types[str(schema["$ref"])]), value)
    if "anyOf" in schema:
        return _one_of(types, cast("list[Schema]", schema["anyOf"]), value)
    if "enum" in schema and value not in cast("list[object]", schema["enum"]):
        raise NotUnderstoodError(f"{value!r} is none of {schema['enum']}")
    match schema.get("type"):
        case "object":
            return _fitted_object(types, schema, value)
        case "array":
            if not isinstance(value, list):
                raise NotUnderstoodError("no list")
            items = cast("Schema", schema.get("items", {}))
            return [_fitted(types, items, one) for one in value]
        case "null" if value is not None:
            raise NotUnderstoodError("not null")
        case "integer" if not isinstance(value, int):
            raise NotUnderstoodError("no integer")
        case "boolean" if not isinstance(value, bool):
            raise NotUnderstoodError("no boolean")
        case "string" if not isinstance(value, str | bytes):
            raise NotUnderstoodError("no text")
    return value


def _fitted_object(types: Schema, schema: Schema, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise NotUnderstoodError("no object")
    properties = cast("dict[str, Schema]", schema["properties"])
    missing = set(cast("list[str]", schema.get("required", []))) - value.keys()
    if missing:
        raise NotUnderstoodError(f"{missing} are missing")
    known = {name: one for name, one in value.items() if name in properties}
    return {name: _fitted(types, properties[name], one) for name, one in known.items()}


def _one_of(types: Schema, choices: list[Schema], value: object) -> object:
    why = NotUnderstoodError("no choice")
    for choice in choices:
        try:
            return _fitted(types, choice, value)
        except NotUnderstoodError as error:
            why = error
    raise why


class OldLink:
    """A node's connection on which one of the two ends is of version 1.

    What either says has the fields of that version alone, and what neither would understand ends
    the link: that is all that the other end sees of its peer's age. `version` is what was agreed.
    """

    def __init__(self, inner: NodeConnection) -> None:
        self._inner = inner
        self.version = 0

    async def send(self, message: FromNode, frame: bytes | None = None) -> None:
        """Send what version 1 would have sent."""
        if isinstance(message, Hello):
            message = Hello(1, NodeId(message.node), message.name, message.instance, "roost old")
        heard = as_heard("node", message)
        await self._inner.send(decode_from_node(msgspec.msgpack.encode(heard)))

    async def receive(self) -> FromGateway | None:
        """Receive what version 1 would have understood; it closes the link over anything else."""
        message = await self._inner.receive()
        if message is None:
            return None
        if isinstance(message, Welcome):
            self.version = message.version
        return decode_from_gateway(msgspec.msgpack.encode(as_heard("gateway", message)))

    async def close(self) -> None:
        """Close it."""
        await self._inner.close()
