"""Leases: taken at the moment of choice, given back once."""

from __future__ import annotations

import pytest

from roost.core.ids import ModelId, NodeId, RequestId
from roost.fleet.choice.leases import Leases, Share

A, B, M, N = NodeId("a"), NodeId("b"), ModelId("m"), ModelId("n")
R1, R2 = RequestId("r1"), RequestId("r2")


def test_taken_and_released() -> None:
    """Counts follow, by place and by node, and return to nothing."""
    leases = Leases()
    leases.take(R1, 1, A, M)
    leases.take(R2, 1, A, N)
    assert (leases.held(A, M), leases.held(A, N), leases.in_flight(A)) == (1, 1, 2)
    freed = leases.release(R1, 1)
    assert freed is not None
    assert (freed.node, freed.model) == (A, M)
    assert (leases.held(A, M), leases.in_flight(A), len(leases)) == (0, 1, 1)


def test_release_twice_gives_back_once() -> None:
    """A second Released, or one of a lease that is gone, changes nothing."""
    leases = Leases()
    leases.take(R1, 1, A, M)
    assert leases.release(R1, 1) is not None
    assert leases.release(R1, 1) is None
    assert leases.release(R2, 1) is None
    assert leases.in_flight(A) == 0


def test_attempts_have_leases_of_their_own() -> None:
    """The place of a withdrawn attempt stays taken while the next attempt has its own."""
    leases = Leases()
    leases.take(R1, 1, A, M)
    leases.take(R1, 2, B, M)
    leases.release(R1, 2)
    assert (leases.in_flight(A), leases.in_flight(B)) == (1, 0)
    with pytest.raises(AssertionError):
        leases.take(R1, 1, B, M)


def test_a_node_that_is_gone_gives_everything_back() -> None:
    """Its leases end together; others stay."""
    leases = Leases()
    first = leases.take(R1, 1, A, M)
    leases.take(R2, 1, B, M)
    assert leases.release_node(A) == [first]
    assert leases.release_node(A) == []
    assert [lease.node for lease in leases.all()] == [B]


def test_ids_are_never_reused() -> None:
    """A lease can be named in a log without ambiguity."""
    leases = Leases()
    first = leases.take(R1, 1, A, M)
    leases.release(R1, 1)
    assert leases.take(R1, 1, A, M).id != first.id


def test_shares_come_and_go_with_their_lease() -> None:
    """KV until the end, prefill and the mark of the bereaved until the first token."""
    leases = Leases()
    leases.take(R1, 1, A, M, Share(tokens=100, prefill=40, recovering=True))
    leases.take(R2, 1, A, M, Share(tokens=50, prefill=10))
    assert (leases.tokens(A, M), leases.ahead(A, M), leases.recovering(A)) == (150, 50, 1)
    leases.prefilled(R1, 1)
    leases.prefilled(R1, 1)
    assert (leases.tokens(A, M), leases.ahead(A, M), leases.recovering(A)) == (150, 10, 0)
    assert leases.changed() == {A}
    assert not leases.changed()
    leases.release(R1, 1)
    leases.release(R2, 1)
    assert (leases.tokens(A, M), leases.ahead(A, M), leases.recovering(A)) == (0, 0, 0)
