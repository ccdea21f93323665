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


def by_token(deltas: Deltas, pieces: list[str], first: int = 0) -> list[Delta]:
    """Push one token for each piece, numbered, until a stop string ends it."""
    out = []
    for number, piece in enumerate(pieces, start=first):
        out.append(deltas.push(piece, 1, (choice(piece),), (number,)))
        if deltas.stop_text is not None:
            break
    return [delta for delta in out if delta is not None]


def test_tokens_are_never_split() -> None:
    """A token goes out when all of its text may, a half character with the rest of it."""
    deltas = Deltas(("bc",), by_token=True)
    assert by_token(deltas, ["a", "xb", "", "漢"]) == [
        Delta("a", 1, (choice("a"),), (0,)),
        Delta("xb漢", 3, (choice("xb"), choice(""), choice("漢")), (1, 2, 3)),
    ]
    assert deltas.push("", 1, (), (9,)) is None
    assert deltas.finish() == Delta("", 1)
    assert Deltas((), by_token=True).finish() is None


def test_text_before_a_stop_comes_out_at_the_end() -> None:
    """Also that of a token which the stop string begins in; its id is nobody's business then."""
    deltas = Deltas(("bc",), by_token=True)
    assert by_token(deltas, ["a", "xb", "c"]) == [Delta("a", 1, (choice("a"),), (0,))]
    assert deltas.finish() == Delta("x", 2)
    assert deltas.stop_text == "bc"


@given(PIECES, STOPS, st.data())
def test_a_cut_answer_goes_on_as_if_it_had_not_been_cut(
    pieces: list[str], stops: tuple[str, ...], data: st.DataObject
) -> None:
    """Cut anywhere, and begun anew behind the last id that is out: the same text, stop and ids."""
    whole = Deltas(stops, by_token=True)
    expected = [*by_token(whole, pieces), whole.finish()]
    cut = data.draw(st.integers(0, len(pieces)))
    first = Deltas(stops, by_token=True)
    out = by_token(first, pieces[:cut])
    if first.stop_text is None:
        told = first.cut()
        assert told == sum(delta.tokens for delta in out)
        assert [i for delta in out for i in delta.ids] == list(range(told))
        second = Deltas(stops, by_token=True)
        out += by_token(second, pieces[told:], told)
        out += [rest] if (rest := second.finish()) else []
        assert second.stop_text == whole.stop_text
        said = [delta for delta in expected if delta is not None]
        assert "".join(d.text for d in out) == "".join(d.text for d in said)
        assert sum(d.tokens for d in out) == sum(d.tokens for d in said)


@given(PIECES, STOPS)
def test_by_token_the_text_is_the_same(pieces: list[str], stops: tuple[str, ...]) -> None:
    """Only where deltas end is different."""
    plain, whole = Deltas(stops), Deltas(stops, by_token=True)
    one = run(plain, pieces)
    other = [*by_token(whole, pieces), whole.finish()]
    assert "".join(d.text for d in one) == "".join(d.text for d in other if d)
    assert (plain.tokens, plain.stop_text) == (whole.tokens, whole.stop_text)
