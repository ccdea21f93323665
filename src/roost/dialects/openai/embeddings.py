"""DECIDER: a body for /v1/embeddings becomes a request, and vectors become its reply.

Rules of our own where clients disagree: one input is as good as a list of one; texts and token ids
may stand in one list; `encoding_format` is `float` where nothing is said, though OpenAI's own
client always says `base64`. A vector is cut to fewer `dimensions` only where its model was trained
for that: nobody gets vectors that look right and mean less.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from roost.core.events import StreamEvent, Vectors
from roost.core.ids import ModelId
from roost.core.request import EmbedPrompt
from roost.core.vectors import DIMENSIONS_MAX
from roost.dialects import fields
from roost.dialects.json_body import parse_object
from roost.dialects.json_text import encode_text
from roost.dialects.openai import options as shared
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.completions import TOKEN_ID_MAX, are_whole
from roost.dialects.openai.envelope import Fact
from roost.dialects.vectors import Written, as_base64, as_numbers, embedding_request
from roost.errors import RoostError, fail

FIELDS = frozenset({"model", "input", "encoding_format", "dimensions", "user", "roost"})
_encode = msgspec.json.Encoder().encode


def read_embeddings(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a request for vectors; `strict` refuses fields that would have no effect.

    Raises `bad_request` with the field at fault.
    """
    sent = parse_object(body)
    model = shared.read_model(sent)
    format_ = fields.text(sent, "encoding_format") or "float"
    if format_ not in ("float", "base64"):
        raise fields.wrong("encoding_format", "'float' or 'base64'", format_)
    if fields.flag(sent, "stream"):
        message = "Vectors are not streamed: leave 'stream' out."
        raise fail("unsupported", message, param="stream")
    fields.text(sent, "user")
    dimensions = fields.whole(sent, "dimensions", 1, DIMENSIONS_MAX) or 0
    prompt = EmbedPrompt(_inputs(sent.get("input")), dimensions)
    ignored = shared.unknown_names(sent, FIELDS)
    return shared.Translated(
        embedding_request(ModelId(model or ""), prompt),
        shared.ReplyOptions(
            model_as_sent=fields.text(sent, "model"),
            vectors=shared.VectorOptions(len(prompt.inputs), base64=format_ == "base64"),
        ),
        shared.name_ignored(ignored, strict=strict),
        fields.mapping(sent, "roost"),
    )


def _inputs(value: object) -> tuple[str | tuple[int, ...], ...]:
    """Read one input, text or token ids, or a list of such."""
    if isinstance(value, list) and value and isinstance(value[0], (str, list)):
        return tuple(_input(one) for one in value)
    return (_input(value),)


def _input(value: object) -> str | tuple[int, ...]:
    if isinstance(value, str):
        if not value:
            raise _wrong("every text has at least one character")
        return value
    if not isinstance(value, list):
        raise fields.wrong("input", "a string, an array of token ids, or an array of those", value)
    if not value:
        raise _wrong("there is at least one input, and each has at least one token")
    if not are_whole(value) or not 0 <= min(value) <= max(value) <= TOKEN_ID_MAX:
        raise _wrong(f"token ids are whole numbers from 0 to {TOKEN_ID_MAX}")
    return tuple(value)


def _wrong(reason: str) -> RoostError:
    return fail("bad_request", f"'input' has a wrong value: {reason}.", param="input")


class EmbeddingsBody:
    """Writes the vectors of one request, in the order of its inputs."""

    def __init__(self, choice: Choice) -> None:
        wanted = choice.options.vectors
        assert wanted is not None, "a reply of vectors has their options"
        self._model = choice.model
        self._vectors = Written(wanted.count, as_base64 if wanted.base64 else as_numbers)
        self._facts: Mapping[str, Fact] = {}

    def ahead(self, event: Vectors) -> None:
        """Write what has come, for the end."""
        self._vectors.ahead(event)

    def event(self, event: StreamEvent) -> bytes:
        """Take an event; return the JSON body at the end. Raises the failure that ended it."""
        usage = self._vectors.event(event)
        if usage is None:
            return b""
        data = b",".join(
            b'{"object":"embedding","index":%d,"embedding":%b}' % (place, text)
            for place, text in enumerate(self._vectors.texts())
        )
        tokens = usage.prompt_tokens
        counted = b'{"prompt_tokens":%d,"total_tokens":%d}' % (tokens, tokens)
        facts = b',"roost":' + _encode(dict(self._facts)) if self._facts else b""
        parts = (data, encode_text(self._model), counted, facts)
        return b'{"object":"list","data":[%b],"model":%b,"usage":%b%b}' % parts

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put these facts into the body."""
        self._facts = facts
