"""What a key does about a row: a question, one call, and who may."""

from __future__ import annotations

import pytest

from roost.cli.dashboard.actions import NOT_ADMIN, NOTHING, Action, Key, action_of
from roost.cli.dashboard.tables import NodeTarget, RequestTarget, RuntimeTarget, Target

NODE, DRAINED = NodeTarget("a/b", draining=False), NodeTarget("a/b", draining=True)
RUNTIME, REQUEST = RuntimeTarget("n", "org/m:1"), RequestTarget("r1", "ann", "m")


@pytest.mark.parametrize(
    ("key", "target", "method", "path"),
    [
        ("drain", NODE, "POST", "/roost/v1/nodes/a%2Fb/drain"),
        ("drain", DRAINED, "POST", "/roost/v1/nodes/a%2Fb/undrain"),
        ("unload", RUNTIME, "POST", "/roost/v1/nodes/n/unload"),
        ("cancel", REQUEST, "DELETE", "/roost/v1/requests/r1"),
    ],
)
@pytest.mark.parametrize("role", ["admin", ""])
def test_a_call_for_a_row(key: Key, target: Target, method: str, path: str, role: str) -> None:
    """Also where the gateway does not tell the role: then it judges itself."""
    action = action_of(key, target, role)
    assert isinstance(action, Action)
    assert (action.method, action.path) == (method, path)
    assert action.question.endswith(("?", "in use."))
    assert action.done.endswith(".")


def test_questions_name_what_they_are_about() -> None:
    """So that nobody stops another request than the one he means."""
    cancel, unload = action_of("cancel", REQUEST, "user"), action_of("unload", RUNTIME, "admin")
    assert isinstance(cancel, Action)
    assert cancel.question == "Cancel request r1 of ann to m?"
    assert isinstance(unload, Action)
    assert unload.body == {"model": "org/m:1", "answer_s": 5.0}


@pytest.mark.parametrize(("key", "target"), [("drain", NODE), ("unload", RUNTIME)])
def test_a_users_key_is_not_enough_for_the_fleet(key: Key, target: Target) -> None:
    """It is told what is."""
    assert action_of(key, target, "user") == NOT_ADMIN


@pytest.mark.parametrize("key", ["drain", "unload", "cancel"])
def test_without_a_row_there_is_nothing_to_do(key: Key) -> None:
    """And that is said, nothing else."""
    assert action_of(key, None, "admin") == NOTHING[key]
