"""Deadlines: a heap in which times may be changed and dropped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.fleet.deadlines import Deadlines

OPS = st.lists(
    st.tuples(st.sampled_from(["set", "drop", "due"]), st.integers(0, 5), st.integers(0, 50)),
    max_size=80,
)


def test_due_in_order_once() -> None:
    """What is due comes out earliest first, and only once."""
    times: Deadlines[str] = Deadlines()
    times.set("b", 2.0)
    times.set("a", 1.0)
    times.set("c", 3.0)
    assert times.next_s() == 1.0
    assert times.due(2.0) == ["a", "b"]
    assert times.due(2.0) == []
    assert times.next_s() == 3.0


def test_changed_and_dropped() -> None:
    """A key has one time, the last one set, or none."""
    times: Deadlines[str] = Deadlines()
    times.set("a", 1.0)
    times.set("a", 5.0)
    times.set("b", 2.0)
    times.drop("b")
    times.drop("never")
    assert times.due(4.0) == []
    assert times.due(5.0) == ["a"]
    assert times.next_s() is None


def test_memory_follows_what_is_alive() -> None:
    """Times that were dropped do not pile up."""
    times: Deadlines[int] = Deadlines()
    for n in range(10_000):
        times.set(n, float(n + 10_000))
        times.drop(n)
    assert len(times) == 0
    assert len(times._heap) <= 32  # noqa: SLF001 - memory does not show from outside


@given(ops=OPS)
def test_agrees_with_a_plain_dictionary(ops: list[tuple[str, int, int]]) -> None:
    """Any sequence of operations gives what a naive search would."""
    times: Deadlines[int] = Deadlines()
    model: dict[int, float] = {}
    for what, key, when in ops:
        if what == "set":
            times.set(key, float(when))
            model[key] = float(when)
        elif what == "drop":
            times.drop(key)
            model.pop(key, None)
        else:
            due = {k for k, w in model.items() if w <= when}
            out = times.due(float(when))
            assert set(out) == due
            assert [model[k] for k in out] == sorted(model[k] for k in out)
            for k in due:
                del model[k]
        assert times.next_s() == min(model.values(), default=None)
        assert len(times) == len(model)
