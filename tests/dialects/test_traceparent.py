"""`traceparent` as W3C Trace Context has it; what is wrong is as if nobody had sent it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.trace import Parent
from roost.dialects.traceparent import parent_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
IDS = int(TRACE, 16), int(SPAN, 16)


@pytest.mark.parametrize(
    ("header", "parent"),
    [
        (f"00-{TRACE}-{SPAN}-01", Parent(*IDS, sampled=True)),
        (f"00-{TRACE}-{SPAN}-00", Parent(*IDS, sampled=False)),
        (f" 00-{TRACE}-{SPAN}-03 ", Parent(*IDS, sampled=True)),
        # A version to come may say more; this one may not.
        (f"01-{TRACE}-{SPAN}-01-more", Parent(*IDS, sampled=True)),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}", None),
        (f"00-{TRACE[:-1]}-{SPAN}-01", None),
        ("", None),
        (None, None),
    ],
)
def test_what_is_read(header: str | None, parent: Parent | None) -> None:
    """Ids and whether the caller records."""
    assert parent_of(None if header is None else header.encode()) == parent


@given(st.binary(max_size=80))
def test_nothing_that_comes_is_an_error(header: bytes) -> None:
    """Whoever sends it."""
    assert parent_of(header) is None or header.strip()[2:3] == b"-"
