"""What a model takes in memory: figures that llama.cpp reports, and what gets no figure."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.footprint import Footprint, footprint_of
from roost.core.ids import ModelId
from roost.core.kv import KvLayers, KvPlan, KvShape
from roost.core.model import Manifest, Widths

MIB = 2**20
SMOLLM2 = Manifest(
    *(ModelId("smollm2"), "/m", 98_362_432, "sha256:0"),
    vocab_size=49_152,
    kv=KvShape((KvLayers(30, 192, 192),)),
    weight_bytes=96_576_768,
    widths=Widths(576, 1536),
)
GEMMA3 = Manifest(
    *(ModelId("gemma3"), "/g", 253_113_024, "sha256:0"),
    vocab_size=262_144,
    kv=KvShape((KvLayers(5, 256, 256, 512), KvLayers(1, 256, 256)) * 3),
    weight_bytes=246_587_904,
    widths=Widths(640, 2048),
)


@pytest.mark.parametrize(
    ("model", "plan", "compute_mib", "output_mib"),
    [
        (SMOLLM2, KvPlan(512, 1, 64), 1.89, 0.19),
        (SMOLLM2, KvPlan(4096, 4, 256), 9.32, 0.75),
        (SMOLLM2, KvPlan(8192, 2, 512), 22.64, 0.38),
        (GEMMA3, KvPlan(512, 1, 64), 2.41, 1.00),
        (GEMMA3, KvPlan(4096, 4, 256), 11.51, 4.00),
        (GEMMA3, KvPlan(8192, 2, 512), 27.28, 2.00),
    ],
)
def test_the_workspace_is_what_llama_cpp_reports(
    model: Manifest, plan: KvPlan, compute_mib: float, output_mib: float
) -> None:
    """The "compute buffer size" and "output buffer size" lines of real loads, within 1 %."""
    found = footprint_of(model, plan).workspace_bytes
    assert found is not None
    assert found / MIB == pytest.approx(compute_mib + output_mib, rel=0.01)


def test_parts_add_up() -> None:
    """Weights are the tensors alone; the total is the sum of the parts."""
    found = footprint_of(SMOLLM2, KvPlan(4096, 4, 256))
    assert (found.weights_bytes, found.kv_bytes) == (96_576_768, 360 * MIB)
    assert found.kv_token_bytes == 23_040
    assert found.kv_bytes is not None
    assert found.workspace_bytes is not None
    parts = found.weights_bytes + found.kv_bytes + found.workspace_bytes
    assert found.total_bytes == parts


def test_what_is_not_known_is_none() -> None:
    """Layers or widths that nobody knows are no guess, and neither is the sum."""
    plan = KvPlan(512, 1, 64)
    no_layers = msgspec.structs.replace(SMOLLM2, kv=None, weight_bytes=0)
    assert footprint_of(no_layers, plan) == Footprint(98_362_432, None, None, None, None)
    no_widths = footprint_of(msgspec.structs.replace(SMOLLM2, widths=None), plan)
    assert (no_widths.workspace_bytes, no_widths.total_bytes) == (None, None)
    assert no_widths.kv_bytes is not None
    unfit = KvPlan(512, 1, 64, "q4_0", "q4_0")
    odd = msgspec.structs.replace(SMOLLM2, kv=KvShape((KvLayers(1, 33, 33),)))
    assert footprint_of(odd, unfit).total_bytes is None
