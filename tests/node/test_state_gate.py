"""E15, and the twelfth test of the law: states are moved beside inference, and never under it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import Runtime
from roost.core.ids import ModelId, RuntimeId
from roost.node.keeping import KeepSettings
from roost.node.sessions import SessionSettings
from tests.backends.subjects import MODEL, fake_server
from tests.conftest import until
from tests.node.law import node_of, settings

pytestmark = pytest.mark.slow
KEPT = SessionSettings(ram_bytes=2**20, tokens_min=1)


async def test_12_two_requests_run_while_a_state_operation_is_kept_out(tmp_path: Path) -> None:
    """Two HTTP requests are inside the server at once; what has to save a slot waits for one.

    A third conversation needs a slot, so what one holds has to be put aside. Nothing is saved while
    both run, and never a slot that runs.
    """
    gate = tmp_path / "gate"
    subject = fake_server(tmp_path, gate=str(gate))

    async def launch(
        model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Start the fake server with two slots."""
        return await subject.backend.start(
            subject.key, subject.manifest, subject.settings, on_progress
        )

    def said() -> list[str]:
        """Everything that the server has said."""
        log = tmp_path / "runtime.log"
        return log.read_text().splitlines() if log.exists() else []

    how = msgspec.structs.replace(settings(3), sessions=KEPT)
    keep = KeepSettings(str(tmp_path / "held"))
    async with node_of(launch, [MODEL], how, slots=2, keep=keep) as law:
        prompts = [f"@gate {name} " * 8 for name in ("one", "two")]
        held = [law.gateway.ask(p, model=MODEL, tenant=p) for p in prompts]
        await until(lambda: said().count("held") == 2, within_s=20.0)
        before = len(said())
        third = law.gateway.ask("three " * 8, model=MODEL, tenant="three")
        await until(lambda: said()[before:] == ["tokenize"])
        assert law.node.statistics().in_flight == 3
        gate.touch()
        await law.released(*held, third)
        assert law.gateway.refused == {}
        acts = [line.split() for line in said()[before:] if line.startswith("act ")]
        assert [(what, state) for _, what, _, state in acts] == [("save", "idle")]
