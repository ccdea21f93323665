"""Text on its way out: stop strings are cut, counts add up, and nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.backends.deltas import Deltas
from roost.core.events import Delta, TokenChoice, TokenLogprob


def choice(text: str) -> TokenChoice:
    """Give a choice of a token with this text."""
    return TokenChoice(TokenLogprob(text, -0.5, text.encode()))


def run(deltas: Deltas, pieces: list[str], tokens: int = 1) -> list[Delta]:
    """Push pieces until a stop string ends it, and finish."""
    out = []
    for piece in pieces:
        out.append(deltas.push(piece, tokens, (choice(piece),)))
        if deltas.stop_text is not None:
            break
    out.append(deltas.finish())
    return [delta for delta in out if delta is not None]


def test_without_stops_pieces_pass_through() -> None:
    """Each piece becomes a delta with its tokens and choices."""
    deltas = Deltas(())
    assert run(deltas, ["a", "bc"]) == [
        Delta("a", 1, (choice("a"),)),
        Delta("bc", 1, (choice("bc"),)),
    ]
    assert deltas.tokens == 2


def test_tokens_without_text_are_told_with_the_next_text_or_at_the_end() -> None:
    """A half character and the token that ends a turn count as well."""
    deltas = Deltas(())
    assert deltas.push("", 1) is None
    assert deltas.push("漢", 2) == Delta("漢", 3)
    assert deltas.push("", 1) is None
    assert deltas.finish() == Delta("", 1)
    assert Deltas(()).finish() is None


def test_stop_across_pieces_is_cut_and_counted() -> None:
    """The tokens of a stop string count, its text and its choices are not yielded."""
    deltas = Deltas(("STOP",))
    assert run(deltas, ["a", "bS", "TO", "Pc", "never"]) == [
        Delta("a", 1, (choice("a"),)),
        Delta("b", 1),
        Delta("", 2),
    ]
    assert deltas.stop_text == "STOP"
    assert deltas.tokens == 4


def test_held_text_comes_out_with_its_choices() -> None:
    """What might have begun a stop string is released whole at the end."""
    deltas = Deltas(("STOP",))
    assert run(deltas, ["aS", "T"]) == [
        Delta("a", 1),
        Delta("ST", 1, (choice("aS"), choice("T"))),
    ]
    assert deltas.stop_text is None


PIECES = st.lists(st.text(alphabet="ab漢", max_size=4), max_size=20)
STOPS = st.lists(st.text(alphabet="ab漢", min_size=1, max_size=3), max_size=3).map(tuple)


@given(PIECES, STOPS)
def test_text_is_what_stands_before_the_first_stop(
    pieces: list[str], stops: tuple[str, ...]
) -> None:
    """Whatever the pieces, no stop string leaks, no text is lost and the counts add up."""
    deltas = Deltas(stops)
    out = run(deltas, pieces)
    text, whole = "".join(delta.text for delta in out), "".join(pieces)
    assert sum(delta.tokens for delta in out) == deltas.tokens
    if deltas.stop_text is None:
        assert text == whole
        assert not any(stop in whole for stop in stops)
        assert [c for delta in out for c in delta.logprobs] == [choice(p) for p in pieces]
    else:
        assert whole.startswith(text + deltas.stop_text)
        assert not any(stop in text for stop in stops)
        told = "".join(c.chosen.text for delta in out for c in delta.logprobs)
        assert text.startswith(told)
