"""DECIDER: bodies for Ollama's /api/embed and /api/embeddings become requests, and vectors replies.

A text that is too long is refused and never cut, so `truncate` has no effect unless it is false.
Without any text it is about the model alone, as in chats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from roost.core.events import StreamEvent, Vectors
from roost.core.ids import ModelId
from roost.core.request import EmbedPrompt
from roost.core.vectors import DIMENSIONS_MAX
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, parse_object
from roost.dialects.json_text import encode_text
from roost.dialects.ollama.durations import read_keep_s
from roost.dialects.ollama.reply import DURATIONS
from roost.dialects.openai import options as shared
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.envelope import Fact
from roost.dialects.stay import Stay
from roost.dialects.vectors import Written, as_numbers, embedding_request

Shape: TypeAlias = Literal["embed", "embeddings"]
_SHARED = frozenset({"model", "options", "keep_alive", "roost"})
EMBED_FIELDS = _SHARED | {"input", "dimensions"}
EMBEDDINGS_FIELDS = _SHARED | {"prompt"}
_LOAD = "."
_MEASURED = ("total_ns", "load_ns")
_encode = msgspec.json.Encoder().encode


def read_ollama_embed(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a request for vectors of one text or several; `strict` as in other APIs.

    Raises `bad_request` with the field at fault.
    """
    sent = parse_object(body)
    known = EMBED_FIELDS if fields.flag(sent, "truncate") else EMBED_FIELDS | {"truncate"}
    dimensions = fields.whole(sent, "dimensions", 1, DIMENSIONS_MAX) or 0
    return _translated(sent, _inputs(sent.get("input")), dimensions, known, strict=strict)


def read_ollama_embeddings(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a request for the vector of one text, in the older way."""
    sent = parse_object(body)
    prompt = fields.text(sent, "prompt")
    return _translated(sent, (prompt,) if prompt else (), 0, EMBEDDINGS_FIELDS, strict=strict)


def _translated(
    sent: JsonObject,
    inputs: tuple[str, ...],
    dimensions: int,
    known: frozenset[str],
    *,
    strict: bool,
) -> shared.Translated:
    ignored = shared.unknown_names(sent, known)
    options = shared.unknown_names(fields.mapping(sent, "options"), ())
    ignored |= {f"options.{name}" for name in options}
    prompt = EmbedPrompt(inputs or (_LOAD,), dimensions if inputs else 0)
    return shared.Translated(
        embedding_request(ModelId(shared.read_model(sent) or ""), prompt),
        shared.ReplyOptions(
            model_as_sent=fields.text(sent, "model"),
            vectors=shared.VectorOptions(len(prompt.inputs)),
            stay=Stay(read_keep_s(sent), alone=not inputs),
        ),
        shared.name_ignored(ignored, strict=strict),
        fields.mapping(sent, "roost"),
    )


def _inputs(value: object) -> tuple[str, ...]:
    """Read one text or a list of them; no text at all is none."""
    if value is None or value in ("", []):
        return ()
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str) or not text:
            raise fields.wrong("input", "a text, or an array of texts that are not empty", text)
    return tuple(texts)


class OllamaVectors:
    """Writes the vectors of one request, in the order of its inputs."""

    def __init__(self, choice: Choice, shape: Shape) -> None:
        wanted, stay = choice.options.vectors, choice.options.stay
        assert wanted is not None, "a reply of vectors has their options"
        self._model = choice.model
        self._shape = shape
        self._is_empty = stay is not None and stay.alone
        self._unloads = stay is not None and stay.unloads
        self._vectors = Written(wanted.count, as_numbers)
        self._facts: Mapping[str, Fact] = {}

    def ahead(self, event: Vectors) -> None:
        """Write what has come, for the end."""
        self._vectors.ahead(event)

    def event(self, event: StreamEvent) -> bytes:
        """Take an event; return the JSON body at the end. Raises the failure that ended it."""
        if self._unloads:
            return self._body([], None)
        usage = self._vectors.event(event)
        if usage is None:
            return b""
        rows = [] if self._is_empty else list(self._vectors.texts())
        return self._body(rows, None if self._is_empty else usage.prompt_tokens)

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put durations into the body."""
        self._facts = facts

    def _body(self, rows: list[bytes], tokens: int | None) -> bytes:
        if self._shape == "embeddings":
            return b'{"embedding":%b}' % (rows[0] if rows else b"[]")
        told: dict[str, object] = {
            DURATIONS[fact]: self._facts[fact] for fact in _MEASURED if fact in self._facts
        }
        if tokens is not None:
            told["prompt_eval_count"] = tokens
        more = b"," + _encode(told)[1:] if told else b"}"
        listed = b",".join(rows)
        return b'{"model":%b,"embeddings":[%b]' % (encode_text(self._model), listed) + more
