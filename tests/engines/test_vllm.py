"""vLLM's own server on a small real model; `make test-vllm VLLM=PROGRAM`, where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from roost.testing.conformance import CASES, examine, failed, table
from tests.record import own_vllm

pytestmark = [pytest.mark.engine, pytest.mark.vllm, pytest.mark.timeout(1800)]


async def test_every_promise_of_its_dialect_is_kept(home: Path, tmp_path: Path) -> None:
    """All that it claims; docs/capabilities.md has what came of it, when and where."""
    program = os.environ.get("VLLM")
    assert program, "name vLLM's program: make test-vllm VLLM=/opt/vllm/bin/vllm"
    results = await examine(own_vllm(tmp_path, home, program), CASES)
    assert failed(results) == [], table(results)
    assert {one.status for one in results} <= {"kept", "not claimed", "not applicable"}
