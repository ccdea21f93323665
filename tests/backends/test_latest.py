"""What is kept for owners: what was used last, within one limit for all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.backends.rendering.latest import Latest

MOST = 10
OWNERS, DIGESTS = st.sampled_from("ab"), st.sampled_from([b"1", b"2", b"3", b"4"])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("keep"), OWNERS, DIGESTS, st.integers(1, MOST + 2)),
            st.tuples(st.just("get"), OWNERS, DIGESTS, st.just(0)),
            st.tuples(st.just("forget"), OWNERS, st.just(b""), st.just(0)),
        ),
        max_size=40,
    )
)
def test_it_has_what_was_used_last_as_far_as_that_fits(
    steps: list[tuple[str, str, bytes, int]],
) -> None:
    """Checked against a list in order of use, whose sizes are added up anew each time."""
    latest: Latest[int] = Latest(MOST, lambda size: size)
    used: list[tuple[str, bytes, int]] = []
    for what, owner, digest, size in steps:
        mine = [one for one in used if one[:2] == (owner, digest)]
        if what == "keep":
            latest.keep(owner, digest, size)
            used = [*(one for one in used if one not in mine), (owner, digest, size)]
            while sum(one[2] for one in used) > MOST:
                del used[0]
        elif what == "get":
            assert latest.get(owner, digest) == (mine[0][2] if mine else None)
            used = [*(one for one in used if one not in mine), *mine]
        else:
            latest.forget(owner)
            used = [one for one in used if one[0] != owner]
    for owner, digest, size in used:
        assert latest.get(owner, digest) == size


def test_an_owner_that_is_forgotten_leaves_room() -> None:
    """As much as before fits again."""
    latest: Latest[int] = Latest(MOST, lambda size: size)
    for owner in ("a", "b"):
        latest.keep(owner, b"1", MOST // 2)
    latest.forget("a")
    latest.keep("b", b"2", MOST // 2)
    assert [latest.get("b", digest) for digest in (b"1", b"2")] == [MOST // 2] * 2
