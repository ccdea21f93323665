"""DECIDER: what an answer is to be held to, as a grammar that an engine can follow."""

from __future__ import annotations

from roost.core.request import Constraint, Grammar, JsonAny
from roost.errors import RoostError, fail
from roost.text.gbnf import Rules
from roost.text.gbnf_check import check_grammar
from roost.text.gbnf_match import shortest
from roost.text.gbnf_read import read_gbnf
from roost.text.schema_grammar import any_object, read_schema


def rules_of(constraint: Constraint) -> Rules:
    """Give the grammar of a constraint; what fits it can be followed quickly and has an end.

    Raises `bad_request` for what is no schema or grammar, or one without any text, and
    `unsupported` for a schema that no grammar can say or no engine can follow.
    """
    if isinstance(constraint, Grammar):
        rules = read_gbnf(constraint.text)
        check_grammar(rules)
    else:
        rules = any_object() if isinstance(constraint, JsonAny) else read_schema(constraint.text)
        _check_schema(rules)
    if shortest(rules) is None:
        param = "grammar" if isinstance(constraint, Grammar) else "response_format"
        raise fail("bad_request", "No answer that ends fits the format.", param=param)
    return rules


def _check_schema(rules: Rules) -> None:
    try:
        check_grammar(rules)
    except RoostError as error:
        why = error.failure.message.partition(": ")[2]
        message = f"No answer can be held to the schema: {why}"
        raise fail("unsupported", message, param="response_format") from None
