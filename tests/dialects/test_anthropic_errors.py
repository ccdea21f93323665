"""Failures as Anthropic's clients know them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.dialects.anthropic.errors import error_body, error_json, error_type
from roost.errors import REASONS, Failure

ID = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("reason", "status", "name"),
    [
        ("bad_request", 400, "invalid_request_error"),
        ("unauthorized", 401, "authentication_error"),
        ("forbidden", 403, "permission_error"),
        ("model_not_found", 404, "not_found_error"),
        ("method_not_allowed", 405, "invalid_request_error"),
        ("request_timeout", 408, "invalid_request_error"),
        ("body_too_large", 413, "request_too_large"),
        ("queue_full", 429, "rate_limit_error"),
        ("internal", 500, "api_error"),
        ("upstream_error", 502, "api_error"),
        ("deadline", 504, "timeout_error"),
        ("no_nodes", 529, "overloaded_error"),
        ("draining", 529, "overloaded_error"),
    ],
)
def test_statuses_and_types(reason: str, status: int, name: str) -> None:
    """Each failure has the status and the type that their API documents; 503 is their 529."""
    got, body = error_body(Failure(reason, "What happened."), ID)
    assert got == status
    assert msgspec.json.decode(body) == {
        "type": "error",
        "error": {"type": name, "message": "What happened."},
        "request_id": ID,
    }


def test_every_reason_has_a_status_of_theirs() -> None:
    """No failure of the catalogue is told as a success or as a 503, which they do not use."""
    for reason in REASONS:
        status, _ = error_body(Failure(reason, "x"), ID)
        assert 400 <= status <= 529
        assert status != 503


def test_a_status_that_is_not_listed_goes_by_its_hundred() -> None:
    """Whose fault it is stays right for statuses that are not in their list."""
    assert error_type(418) == "invalid_request_error"
    assert error_type(507) == "api_error"


@given(st.text(st.characters(exclude_categories=())))
def test_a_message_stays_in_its_line(message: str) -> None:
    """Whatever the text, the JSON is one line of valid UTF-8 that says the same."""
    body = error_json(Failure("internal", message), ID)
    assert body.decode().splitlines() == [body.decode()]
    said = msgspec.json.decode(body)["error"]["message"]
    assert said == message.encode("utf-8", "replace").decode()
