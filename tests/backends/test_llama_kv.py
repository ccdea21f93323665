"""The accounting of KV caches against what llama.cpp says that it allocates."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from roost.backends.llama.argv import Launch
from roost.core.footprint import footprint_of
from roost.core.kv import CacheType, KvPlan, cost_of
from roost.core.model import Manifest

pytestmark = [pytest.mark.slow, pytest.mark.engine]
REPORT = Path(__file__).with_name("kv_report.py")
BUFFER = re.compile(r"KV buffer size = +([0-9.]+) MiB")
WEIGHTS = re.compile(r"model buffer size = +([0-9.]+) MiB")
# Said when the load is planned and when it is done: what counts is said last.
SCRATCH = re.compile(r"(compute|output) buffer size = +([0-9.]+) MiB")


@pytest.mark.parametrize(
    ("ctx", "slots", "batch", "type_"),
    [
        (512, 1, 64, "f16"),
        (700, 2, 64, "f16"),
        (1024, 4, 256, "f16"),
        (2048, 3, 128, "q8_0"),
        (1024, 2, 256, "q4_0"),
    ],
)
def test_the_formula_is_what_is_allocated(
    smollm2: Manifest, tmp_path: Path, ctx: int, slots: int, batch: int, type_: CacheType
) -> None:
    """Within 2 %, for several contexts, slots and types: all the buffers of a real load."""
    launch = Launch(smollm2.path, "k", "", ctx, slots, batch, 1, str(tmp_path / "s.sock"))
    wanted = msgspec.json.encode({"launch": launch, "type": type_})
    ran = subprocess.run(
        [sys.executable, str(REPORT)], input=wanted, capture_output=True, check=True, timeout=50
    )
    said = (ran.stdout + ran.stderr).decode("utf-8", "replace")
    allocated = sum(float(found) for found in BUFFER.findall(said)) * 2**20
    assert smollm2.kv is not None
    cost = cost_of(smollm2.kv, KvPlan(ctx, slots, batch, type_, type_))
    assert cost is not None
    assert cost.total == pytest.approx(allocated, rel=0.02)
    scratch = sum(float(found) for found in dict(SCRATCH.findall(said)).values())
    weights = sum(map(float, WEIGHTS.findall(said)))
    total = footprint_of(smollm2, KvPlan(ctx, slots, batch, type_, type_)).total_bytes
    assert total == pytest.approx(allocated + (weights + scratch) * 2**20, rel=0.02)
