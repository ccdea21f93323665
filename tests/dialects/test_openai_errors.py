"""Failures have OpenAI's shape, and hold the words that clients look for."""

from __future__ import annotations

import copy
import json

import pytest

from roost.dialects.openai.errors import error_body, model_not_found
from roost.errors import REASONS, Failure, fail


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_the_shape(reason: str) -> None:
    """Every reason has its status, and a body of exactly four fields with the reason as code."""
    status, body = error_body(Failure(reason, "What\u2028happened.", "stop"))
    assert status == REASONS[reason].status
    error = json.loads(body)["error"]
    assert error == {
        "message": "What\u2028happened.",
        "type": error["type"],
        "param": "stop",
        "code": reason,
    }
    assert len(body.decode().splitlines()) == 1


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("bad_request", "invalid_request_error"),
        ("unauthorized", "authentication_error"),
        ("forbidden", "permission_error"),
        ("model_not_found", "invalid_request_error"),
        ("method_not_allowed", "invalid_request_error"),
        ("body_too_large", "invalid_request_error"),
        ("unsupported_encoding", "invalid_request_error"),
        ("queue_full", "rate_limit_error"),
        ("internal", "server_error"),
        ("node_lost", "server_error"),
        ("no_nodes", "server_error"),
        ("deadline", "server_error"),
    ],
)
def test_types(reason: str, kind: str) -> None:
    """The type follows the status, as OpenAI's clients expect."""
    assert json.loads(error_body(Failure(reason, "x"))[1])["error"]["type"] == kind


def test_no_param_is_null() -> None:
    """A failure of no field in particular says so."""
    assert json.loads(error_body(Failure("internal", "x"))[1])["error"]["param"] is None


def test_an_unknown_model() -> None:
    """It is a 404 whose text says that the model does not exist, however odd its name."""
    status, body = error_body(model_not_found("org/name:tag"))
    error = json.loads(body)["error"]
    assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert error["message"] == "The model 'org/name:tag' does not exist."
    assert len(model_not_found("x" * 5000).message) < 200
    assert b"?" in error_body(model_not_found("\ud800"))[1]


def test_a_refusal_survives_the_way_between_processes() -> None:
    """Copying takes the road of pickling: the failure arrives with all its parts."""
    error = copy.copy(fail("bad_request", "Too hot.", param="temperature"))
    assert error.failure == Failure("bad_request", "Too hot.", "temperature")
    assert str(error) == "Too hot."
