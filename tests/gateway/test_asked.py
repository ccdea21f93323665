"""What a client asks for beside its request."""

from __future__ import annotations

import pytest

from roost.core.request import ServiceClass
from roost.errors import RoostError
from roost.gateway.reading.asked import (
    asked_affinity,
    asked_class,
    asked_key,
    asked_on_loss,
    asked_trimming,
)


@pytest.mark.parametrize(
    ("header", "in_body", "found"),
    [
        (None, None, "interactive"),
        (b"bulk", None, "bulk"),
        (None, "agent", "agent"),
        (b" agent ", "bulk", "agent"),
    ],
)
def test_class(header: bytes | None, in_body: object, found: str) -> None:
    """The header counts more than the body; nothing asked is the first class."""
    assert asked_class(header, in_body) == found


@pytest.mark.parametrize(
    ("header", "in_body"), [(b"", None), (b"urgent", None), (None, 3), (None, "BULK")]
)
def test_wrong_class(header: bytes | None, in_body: object) -> None:
    """A class that does not exist is told by the name of its header."""
    with pytest.raises(RoostError) as refused:
        asked_class(header, in_body)
    assert refused.value.failure.param == "x-roost-class"


@pytest.mark.parametrize(
    ("header", "best", "found"),
    [
        (None, "bulk", "bulk"),
        (b"interactive", "agent", "agent"),
        (b"bulk", "agent", "bulk"),
        (b"agent", "agent", "agent"),
    ],
)
def test_asking_may_only_lower(header: bytes | None, best: ServiceClass, found: str) -> None:
    """A key's class is the best that its requests may have."""
    assert asked_class(header, None, best) == found


@pytest.mark.parametrize("header", [b"", b"a b", b"k" * 256, b"k\xc3\xa4se", b"tab\t", b"\x7f"])
def test_unfit_key(header: bytes) -> None:
    """A key is 1 to 255 visible ASCII characters; the failure names the header."""
    with pytest.raises(RoostError) as caught:
        asked_key(header)
    assert caught.value.failure.param == "idempotency-key"


def test_key() -> None:
    """None where there is none, otherwise the key as it was sent."""
    assert asked_key(None) is None
    assert asked_key(b"!" + b"k" * 253 + b"~") == "!" + "k" * 253 + "~"


@pytest.mark.parametrize(
    ("header", "in_body", "found"),
    [
        (None, None, "error"),
        (b"replay", None, "replay"),
        (None, "replay", "replay"),
        (b" error ", "replay", "error"),
    ],
)
def test_on_loss_is_read(header: bytes | None, in_body: object, found: str) -> None:
    """The header counts more than the body; nothing asked is an error."""
    assert asked_on_loss(header, in_body) == found


@pytest.mark.parametrize(
    ("header", "in_body"),
    [(b"", None), (b"REPLAY", None), (None, "retry"), (None, True), (None, ["replay"])],
)
def test_another_word_for_a_loss_is_refused(header: bytes | None, in_body: object) -> None:
    """Rather than that an answer ends which its sender believes is safe."""
    with pytest.raises(RoostError) as error:
        asked_on_loss(header, in_body)
    assert error.value.failure.param == "x-roost-on-loss"


@pytest.mark.parametrize(
    ("in_body", "found"), [(None, False), ("prefer", False), ("require", True)]
)
def test_affinity_is_read(in_body: object, found: bool) -> None:
    """Whoever asks nothing prefers."""
    assert asked_affinity(None, in_body) is found


@pytest.mark.parametrize(
    ("header", "in_body"), [(b"", None), (b"Require", None), (None, True), (None, []), (None, {})]
)
def test_another_word_for_affinity_is_refused(header: bytes | None, in_body: object) -> None:
    """Whatever JSON a body has in its place."""
    with pytest.raises(RoostError) as error:
        asked_affinity(header, in_body)
    assert error.value.failure.param == "x-roost-affinity"


@pytest.mark.parametrize(
    ("header", "in_body", "found"),
    [
        (None, None, None),
        (b" trim ", "reject", True),
        (None, "trim", True),
        (b"reject", "trim", False),
        (None, "reject", False),
    ],
)
def test_trimming(header: bytes | None, in_body: object, *, found: bool | None) -> None:
    """The header counts more than the body, and both more than the setting."""
    for by_default in (False, True):
        expected = by_default if found is None else found
        assert asked_trimming(header, in_body, by_default=by_default) is expected


@pytest.mark.parametrize(("header", "in_body"), [(b"", None), (b"cut", None), (None, True)])
def test_wrong_trimming(header: bytes | None, in_body: object) -> None:
    """Another word is told by the name of its header."""
    with pytest.raises(RoostError) as refused:
        asked_trimming(header, in_body, by_default=False)
    assert refused.value.failure.param == "x-roost-context"
