"""Text of others on a terminal: nothing that it obeys is left, and nothing else is lost."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.text.screen import SHOWN, in_one_line, screened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("naïve 😀 שלום", "naïve 😀 שלום"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("dos\r\nlines", "dos\nlines"),
        ("over\rwritten", f"over{SHOWN}written"),
        ("\x1b[31mred\x1b[0m", f"{SHOWN}[31mred{SHOWN}[0m"),
        ("\x1b]0;title\x07", f"{SHOWN}]0;title{SHOWN}"),
        ("\x9b2J\x7f\x08", f"{SHOWN}2J{SHOWN}{SHOWN}"),
        ("safe\u202eexe.txt", f"safe{SHOWN}exe.txt"),
    ],
)
def test_what_a_terminal_obeys_is_replaced(text: str, shown: str) -> None:
    """Escape sequences are shown as what they are, and words stay as they were."""
    assert screened(text) == shown


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    """Whatever is said, only tab and line feed are left of the control characters."""
    assert {c for c in screened(text) if unicodedata.category(c) == "Cc"} <= {"\n", "\t"}


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    """Nothing that ends a line is left."""
    assert len(in_one_line(text).splitlines()) <= 1
