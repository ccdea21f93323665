"""What a cache costs: figures that llama.cpp itself reports, and what no figure is given for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.kv import CacheType, KvLayers, KvPlan, KvShape, cost_of

MIB = 2**20
SMOLLM2 = KvShape((KvLayers(30, 192, 192),))
GEMMA3_270M = KvShape((KvLayers(5, 256, 256, 512), KvLayers(1, 256, 256)) * 3)


@pytest.mark.parametrize(
    ("shape", "plan", "told_mib"),
    [
        (SMOLLM2, KvPlan(1024, 4, 256), 90.0),
        (SMOLLM2, KvPlan(700, 2, 64), 33.75),
        (SMOLLM2, KvPlan(2048, 3, 128, "q8_0", "q8_0"), 71.72),
        (SMOLLM2, KvPlan(4096, 4, 256), 360.0),
        (SMOLLM2, KvPlan(8192, 2, 512, "q4_0", "q4_0"), 101.25),
        (GEMMA3_270M, KvPlan(1024, 4, 256), 12.0 + 45.0),
        (GEMMA3_270M, KvPlan(700, 2, 64), 4.5 + 22.5),
        (GEMMA3_270M, KvPlan(2048, 3, 128, "q8_0", "q8_0"), 9.56 + 17.93),
        (GEMMA3_270M, KvPlan(4096, 4, 256), 48.0 + 45.0),
        (GEMMA3_270M, KvPlan(8192, 2, 512, "q4_0", "q4_0"), 13.5 + 8.44),
    ],
)
def test_totals_are_those_that_llama_cpp_reports(
    shape: KvShape, plan: KvPlan, told_mib: float
) -> None:
    """The "KV buffer size" lines of real loads, to their two digits."""
    cost = cost_of(shape, plan)
    assert cost is not None
    assert cost.total / MIB == pytest.approx(told_mib, abs=0.011)


def test_a_token_costs_keys_and_values_of_all_layers() -> None:
    """30 layers of 192 + 192 halves are 23,040 bytes, the figure that slot saves confirm."""
    cost = cost_of(SMOLLM2, KvPlan(2048, 2, 256))
    assert cost is not None
    assert (cost.per_token, cost.per_slot) == (23_040, 0)


def test_windows_cost_the_slot_and_not_the_token() -> None:
    """With Gemma 3 only every sixth layer grows with the conversation."""
    short, long = (cost_of(GEMMA3_270M, KvPlan(ctx, 1, 256)) for ctx in (1024, 32_768))
    assert short is not None
    assert long is not None
    assert short.per_token == long.per_token == 3 * 512 * 2
    assert short.per_slot == long.per_slot == 15 * 512 * 2 * 768
    assert long.total == 32_768 * long.per_token + long.per_slot


def test_a_window_wider_than_the_context_keeps_the_context() -> None:
    """No more cells than the sequence can ever have."""
    cost = cost_of(KvShape((KvLayers(2, 64, 64, 4096),)), KvPlan(512, 2, 256))
    assert cost is not None
    assert cost.total == 2 * 2 * 128 * 2 * 512


def test_types_that_do_not_fit_the_heads_have_no_cost() -> None:
    """Rows of 40 numbers do not fill blocks of 32: the runtime would refuse, so nothing is said."""
    odd = KvShape((KvLayers(4, 40, 40),))
    assert cost_of(odd, KvPlan(512, 1, 64, "q8_0", "q8_0")) is None
    assert cost_of(odd, KvPlan(512, 1, 64)) is not None


@given(
    ctx=st.integers(1, 10**6),
    slots=st.integers(1, 256),
    window=st.integers(0, 5000),
    type_=st.sampled_from(["f32", "f16", "q8_0", "q4_0"]),
)
def test_slots_cost_the_same_each(ctx: int, slots: int, window: int, type_: CacheType) -> None:
    """A runtime of n slots costs n times one slot, and a slot at least its tokens."""
    shape = KvShape((KvLayers(3, 64, 64, window), KvLayers(1, 128, 64)))
    one = cost_of(shape, KvPlan(ctx, 1, 128, type_, type_))
    many = cost_of(shape, KvPlan(ctx, slots, 128, type_, type_))
    assert one is not None
    assert many is not None
    assert many.total == slots * one.total
    assert one.total >= ctx * one.per_token + one.per_slot
