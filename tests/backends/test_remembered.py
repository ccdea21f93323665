"""What is remembered of prompts: the same tokens as without it, less to ask, and nobody else's."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.backends.rendering.remembered import ENTRY_BYTES, Remembered, marks_in

MARKS = {"<|im_start|>": 1000, "<|im_end|>": 1001}
START, END = MARKS
TURN = f"{START}user\nhello there{END}\n"
ASKS = f"{START}assistant\n"


def tokens_of(texts: Sequence[str]) -> tuple[int, ...]:
    """Tokenise as llama.cpp does: marks first, then what lies between; pairs of letters merge."""
    return tuple(
        token
        for text in texts
        for part in re.split(f"({re.escape(START)}|{re.escape(END)})", text)
        for token in ([MARKS[part]] if part in MARKS else pairs_of(part))
    )


def pairs_of(plain: str) -> list[int]:
    """Give a number below those of marks for every two letters."""
    return [hash(plain[at : at + 2]) % 900 for at in range(0, len(plain), 2)]


def told(remembered: Remembered, owner: str, pieces: Sequence[str]) -> tuple[list[str], bool]:
    """Have a prompt's tokens, which have to be right; gives what was asked for."""
    recall = remembered.recall(owner, pieces)
    missing = recall.missing
    whole = recall.whole(tokens_of(missing))
    assert whole in {None, tokens_of(pieces)}
    return missing, whole is not None


def test_only_what_is_new_is_asked() -> None:
    """The next turn asks for its new messages; the same again for nothing."""
    remembered = Remembered(MARKS)
    assert told(remembered, "a", [TURN + ASKS])[0] == [
        f"{START}user\nhello there",
        f"{END}\n",
        ASKS,
    ]
    assert told(remembered, "a", [TURN + ASKS])[0] == []
    answered = f"{TURN}{ASKS}well{END}\n{START}user\nbye{END}\n{ASKS}"
    asked = [f"{START}assistant\nwell", f"{START}user\nbye"]
    assert told(remembered, "a", [answered])[0] == asked
    assert told(remembered, "a", [answered]) == ([], True)


def test_nothing_is_told_to_others() -> None:
    """Another owner's same prompt is as new as the first; names do not run into texts."""
    remembered = Remembered(MARKS)
    first, _ = told(remembered, "a", [TURN])
    assert told(remembered, "b", [TURN])[0] == first
    assert told(remembered, "a3:x", ["y"])[0] == ["y"]
    assert told(remembered, "a", ["x", "y"])[0] == ["x", "y"]


def test_an_owner_is_forgotten_and_nobody_else() -> None:
    """What it asks then is as new as the first; the room is free for others."""
    remembered = Remembered(MARKS)
    for owner in ("a", "b"):
        told(remembered, owner, [TURN])
    remembered.forget("a")
    assert told(remembered, "b", [TURN])[0] == []
    assert told(remembered, "a", [TURN])[0] == [f"{START}user\nhello there", f"{END}\n"]


def test_what_a_user_wrote_stays_cut() -> None:
    """A control token's text that was cut in two belongs to its message and is told in two."""
    remembered = Remembered(MARKS)
    pieces = [f"{START}user\nsay <", f"|im_end|> twice{END}\n", ASKS]
    assert told(remembered, "a", pieces)[0] == [*pieces[:1], "|im_end|> twice", f"{END}\n", ASKS]
    assert told(remembered, "a", pieces) == ([], True)


def test_tokens_that_cannot_be_parted_are_not_remembered() -> None:
    """A tokeniser that says more marks than were asked for is asked for the whole."""
    remembered = Remembered(MARKS)
    recall = remembered.recall("a", [TURN])
    assert recall.whole((1000, 1, 1000, 2, 1001, 3)) is None
    assert told(remembered, "a", [TURN])[1]


def test_the_longest_unused_give_way() -> None:
    """Two fit; of three the one that was used last stays."""
    remembered = Remembered(MARKS, max_bytes=2 * (ENTRY_BYTES + 40))
    one, two, three = (f"{START}{word}" for word in ("one", "two", "three"))
    for text in (one, two, one, three):
        told(remembered, "a", [text])
    assert told(remembered, "a", [one])[0] == []
    assert told(remembered, "a", [two])[0] == [two]


@given(
    st.lists(
        st.lists(
            st.sampled_from([START, END, "a", "bc", "<", "|im_start|>", "\n", "€"]), max_size=8
        ),
        max_size=12,
    ),
    st.integers(min_value=0, max_value=2000),
)
def test_tokens_are_those_of_the_whole(prompts: list[list[str]], max_bytes: int) -> None:
    """Whatever was asked before and forgotten since, the tokens are right."""
    remembered = Remembered(MARKS, max_bytes)
    for number, texts in enumerate(prompts):
        pieces = [text for text in ("".join(texts[:4]), "".join(texts[4:])) if text]
        missing, is_whole = told(remembered, str(number % 2), pieces)
        assert is_whole or missing


@pytest.mark.parametrize(
    ("template", "control", "marks"),
    [
        (f"x {START} y {END}", [START, END, "<|other|>"], [END, START]),
        ("<s> [INST]", ["<s>", "<s>x", "[INST]"], ["[INST]"]),
        ("", [START], []),
        ("hello", [], []),
    ],
)
def test_marks_are_what_a_template_writes(
    template: str, control: list[str], marks: list[str]
) -> None:
    """Those that it writes; not those that are a part of another one."""
    assert marks_in(template, control) == marks
