"""DECIDER: a body for /v1/rerank becomes a request, and scores become its reply.

The shape is the one that Jina, Cohere and llama.cpp have in common. Rules of our own where they
differ: a document is a text or an object with a `text`; documents come back only where
`return_documents` asks for them; a score is the model's own number, which compares documents for
one query and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

import msgspec

from roost.core.events import StreamEvent
from roost.core.ids import ModelId
from roost.core.request import RankPrompt
from roost.core.vectors import numbers
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, parse_object
from roost.dialects.json_text import encode_text
from roost.dialects.openai import options as shared
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.envelope import Fact
from roost.dialects.vectors import Collected, embedding_request
from roost.errors import RoostError, fail

FIELDS = frozenset({"model", "query", "documents", "top_n", "return_documents", "user", "roost"})
_encode = msgspec.json.Encoder().encode


def read_rerank(body: bytes, *, strict: bool = False) -> shared.Translated:
    """Translate a request for scores; `strict` refuses fields that would have no effect.

    Raises `bad_request` with the field at fault.
    """
    sent = parse_object(body)
    model = shared.read_model(sent)
    query = fields.text(sent, "query")
    if not query:
        raise fields.wrong("query", "a string of at least one character", query)
    prompt = RankPrompt(query, _documents(sent))
    top = fields.whole(sent, "top_n", 1, None) or len(prompt.documents)
    returns = fields.flag(sent, "return_documents") or False
    fields.text(sent, "user")
    return shared.Translated(
        embedding_request(ModelId(model or ""), prompt),
        shared.ReplyOptions(
            model_as_sent=fields.text(sent, "model"),
            scores=shared.ScoreOptions(
                len(prompt.documents), top, prompt.documents if returns else ()
            ),
        ),
        shared.name_ignored(shared.unknown_names(sent, FIELDS), strict=strict),
        fields.mapping(sent, "roost"),
    )


def _documents(sent: JsonObject) -> tuple[str, ...]:
    value = sent.get("documents")
    if not isinstance(value, list):
        raise fields.wrong("documents", "an array of strings", value)
    if not value:
        raise fail("bad_request", "'documents' must hold at least one.", param="documents")
    return tuple(map(_document, value))


def _document(value: object) -> str:
    text = value.get("text") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text:
        raise _wrong(value)
    return text


def _wrong(value: object) -> RoostError:
    wanted = "strings of at least one character, or objects with such a 'text'"
    return fields.wrong("documents", wanted, value)


class RerankBody:
    """Writes the best documents of one request, the best first."""

    def __init__(self, choice: Choice) -> None:
        wanted = choice.options.scores
        assert wanted is not None, "a reply of scores has their options"
        self._choice = choice
        self._wanted = wanted
        self._scores = Collected(wanted.count)
        self._facts: Mapping[str, Fact] = {}

    def event(self, event: StreamEvent) -> bytes:
        """Take an event; return the JSON body at the end. Raises the failure that ended it."""
        usage = self._scores.event(event)
        if usage is None:
            return b""
        scores = [numbers(row)[0] for row in self._scores.rows()]
        # Of equal scores the one that was sent first.
        best = sorted(enumerate(scores), key=itemgetter(1), reverse=True)[: self._wanted.top]
        results = b",".join(self._result(place, score) for place, score in best)
        tokens = usage.prompt_tokens
        counted = b'{"prompt_tokens":%d,"total_tokens":%d}' % (tokens, tokens)
        facts = b',"roost":' + _encode(dict(self._facts)) if self._facts else b""
        names = encode_text(self._choice.reply_id), encode_text(self._choice.model)
        parts = (*names, results, counted, facts)
        return b'{"id":%b,"object":"list","model":%b,"results":[%b],"usage":%b%b}' % parts

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put these facts into the body."""
        self._facts = facts

    def _result(self, place: int, score: float) -> bytes:
        texts = self._wanted.documents
        document = b',"document":{"text":%b}' % encode_text(texts[place]) if texts else b""
        return b'{"index":%d,"relevance_score":%b%b}' % (place, _encode(score), document)
