"""SHELL: cases about answers that are held to a format, and what else has to be claimed."""

from __future__ import annotations

import json
import time

import msgspec

from roost.backends.base import SlotUse
from roost.core.events import Delta
from roost.core.request import Constraint, GenerateRequest, Grammar, JsonAny, JsonSchema, Sampling
from roost.testing.stand import Record, Stand, require
from roost.text.constraints import rules_of
from roost.text.gbnf_match import matches

ASK = "Here is a JSON object about a cat: "
ANSWER_TOKENS = 160
REFUSAL_MAX_S = 3.0
CAT = """{
  "type": "object",
  "properties": {
    "name": {"type": "string", "minLength": 1, "maxLength": 8},
    "kind": {"enum": ["cat", "cattle", "dog"]},
    "lives": {"type": "integer", "minimum": 3, "maximum": 9},
    "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
    "owner": {"anyOf": [{"$ref": "#/$defs/owner"}, {"type": "null"}]}
  },
  "required": ["name", "kind", "lives", "tags", "owner"],
  "additionalProperties": false,
  "$defs": {"owner": {"type": "object", "properties": {"id": {"const": 7}}, "required": ["id"]}}
}"""
_DEEP = '{"type":"array","items":' * 5000 + "{}" + "}" * 5000
_LOOP = '{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}'
_ENDLESS = '{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}'
BAD_SCHEMAS = (
    *("", "{", "5", '"x"', "[]", "false", '{"type": "wibble"}', '{"enum": []}', _DEEP, _LOOP),
    *('{"properties": [1]}', '{"$ref": "#/nowhere"}', '{"$ref": "https://example.com/x"}'),
    *('{"not": {}}', '{"type": "string", "minLength": 1000000000}', '{"type": "string", "x'),
    *('{"type": "string", "pattern": "^(a{1000}){1000}$"}', '{"minimum": 2, "maximum": 1}'),
    *('{"type": "string", "pattern": "^([a-z]?[a-z]?)*$"}', _ENDLESS, "x" * 100_000),
)
BAD_GRAMMARS = (
    *(
        "",
        "hello",
        'a ::= "b"',
        "root ::= a",
        'root ::= root "a" | "b"',
        'root ::= "a',
        "root ::= [a",
    ),
    *('root ::= "a"{1000000000}', 'root ::= (("a"{0,900}){0,900}){0,900}', 'root ::= (""*)* "a"'),
    *("root ::= " + "(" * 50_000 + '"a"' + ")" * 50_000, "root ::= ([a-z]? [a-z]?){0,500}"),
    *(
        'root ::= "\\xZZ"',
        "root ::= <[5]>",
        'root ::= "' + "a" * 100_000 + '"',
        'root ::= "a" root',
    ),
    "root ::= r1\n"
    + "".join(f"r{n} ::= r{n + 1}? r{n + 1}?\n" for n in range(1, 40))
    + "r40 ::= .",
)


def held(stand: Stand, constraint: Constraint, prompt: str = ASK) -> GenerateRequest:
    """Make a request whose answer is held to a format."""
    return msgspec.structs.replace(stand.request(prompt, ANSWER_TOKENS), constraint=constraint)


async def _held_to(stand: Stand, constraint: Constraint) -> Record:
    """Run such a request and judge its text."""
    record = await stand.run(held(stand, constraint))
    whole = record.finished.reason == "stop"
    good = matches(rules_of(constraint), record.text, whole=whole)
    require(good, f"{record.text!r} does not have the format, ended by {record.finished.reason}")
    return record


async def answers_are_json(stand: Stand) -> None:
    """An answer that is to be JSON is an object, or the beginning of one."""
    record = await _held_to(stand, JsonAny())
    if record.finished.reason == "stop":
        require(isinstance(json.loads(record.text), dict), f"{record.text!r} is no object")


async def schemas_hold(stand: Stand) -> None:
    """An answer is valid under its schema."""
    record = await _held_to(stand, JsonSchema(CAT))
    require(record.finished.reason == "stop", f"{record.text!r} has no end")
    cat = json.loads(record.text)
    good = (
        cat["kind"] in ("cat", "cattle", "dog")
        and 3 <= cat["lives"] <= 9
        and 1 <= len(cat["name"]) <= 8
        and all(isinstance(tag, bool) for tag in cat["tags"])
        and cat["owner"] in (None, {"id": 7})
    )
    require(good, f"{record.text!r} is not valid under its schema")


async def grammars_hold(stand: Stand) -> None:
    """An answer is a text of its grammar, whatever characters that has, and then it ends."""
    for text in ("yes", "wörtlich 漢字 😀", 'say "\\" \n'):
        quoted = "".join(f"\\U{ord(char):08X}" for char in text)
        record = await _held_to(stand, Grammar(f'root ::= "{quoted}" # this\n'))
        require(record.text == text, f"{record.text!r} came instead of {text!r}")
        require(record.finished.reason == "stop", f"it ended by {record.finished.reason}")


async def bad_formats_are_refused(stand: Stand) -> None:
    """What no answer can be held to is refused, quickly, and the runtime lives on."""
    bad: list[Constraint] = [*map(JsonSchema, BAD_SCHEMAS), *map(Grammar, BAD_GRAMMARS)]
    claims = stand.subject.backend.capabilities
    for constraint in bad:
        if isinstance(constraint, Grammar) and not claims.grammar:
            continue
        began_s = time.monotonic()
        failure = await stand.refusal(held(stand, constraint, "one "))
        took_s = time.monotonic() - began_s
        what = f"{constraint!r:.80}"
        require(failure.reason in ("bad_request", "unsupported"), f"{what}: {failure.reason}")
        require(failure.param in ("response_format", "grammar"), f"{what}: {failure.param}")
        require(took_s < REFUSAL_MAX_S, f"{what} took {took_s:.1f} s to be refused")
    endless = msgspec.structs.replace(held(stand, JsonAny()), ignore_eos=True)
    reason = (await stand.refusal(endless)).reason
    require(reason == "bad_request", f"an answer without end is refused as {reason}")
    await stand.run(stand.request("one two ", 2))


async def formats_do_not_disturb(stand: Stand) -> None:
    """A neighbour's answer is the same beside answers that are held to large formats."""
    prompt = stand.request("one two three four five ", 24, ignore_eos=True)
    alone = await stand.run(prompt)
    words = json.dumps([f"a word of many, number {n}" for n in range(60)])
    prepared = await stand.runtime.prepare(held(stand, JsonSchema(f'{{"enum": {words}}}')))
    async with stand.runtime.open(prepared, SlotUse(1, reuse=False)) as events:
        beside = await stand.run(prompt)
        text = "".join([event.text async for event in events if isinstance(event, Delta)])
    require(beside.text == alone.text, f"{alone.text!r} became {beside.text!r}")
    require(json.loads(text) in json.loads(words), f"{text!r} is none of the words")


async def biases_are_followed(stand: Stand) -> None:
    """A token that is kept out does not come; one that the model does not have is refused."""
    request = stand.request("one two three four ", 8, ignore_eos=True)
    asked = msgspec.structs.replace(request, return_tokens=True)
    plain = await stand.run(asked)
    first = next(delta.ids[0] for delta in plain.deltas if delta.ids)
    without = Sampling(temperature=0.0, logit_bias=((first, -100.0),))
    record = await stand.run(msgspec.structs.replace(asked, sampling=without))
    ids = [one for delta in record.deltas for one in delta.ids]
    require(first not in ids, f"the token {first} came, which was kept out")
    for bias in ((2**31, 1.0), (-1, 1.0), (first, 101.0), (first, float("nan")), (True, 1.0)):
        sampling = Sampling(logit_bias=(bias,))
        failure = await stand.refusal(stand.request("one ", sampling=sampling))
        named = (failure.reason, failure.param)
        require(named == ("bad_request", "logit_bias"), f"{bias} is refused as {named}")


async def unclaimed_is_refused(stand: Stand) -> None:
    """What the backend does not claim is refused as that, and not left out."""
    claims = stand.subject.backend.capabilities
    biased = Sampling(logit_bias=((1, 1.0),))
    for claimed, request in (
        (claims.json_schema, held(stand, JsonAny())),
        (claims.json_schema, held(stand, JsonSchema("{}"))),
        (claims.grammar, held(stand, Grammar('root ::= "a"'))),
        (claims.logit_bias, stand.request("one ", sampling=biased)),
        (claims.logprobs, stand.request("one ", top_logprobs=1)),
    ):
        if not claimed:
            reason = (await stand.refusal(request)).reason
            require(reason == "unsupported", f"{request} is refused as {reason}")
