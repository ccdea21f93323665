"""E15, and the twelfth test of the law: states are moved beside inference, and never under it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import Runtime
from roost.core.events import Started
from roost.core.ids import ModelId, RuntimeId
from roost.node.states.keeping import KeepSettings
from roost.node.states.session_settings import SessionSettings
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

    how = msgspec.structs.replace(settings(3), sessions=KEPT)
    keep = KeepSettings(str(tmp_path / "held"))
    async with node_of(launch, [MODEL], how, slots=2, keep=keep) as law:
        prompts = [f"@gate {name} " * 8 for name in ("one", "two")]
        held = [law.gateway.ask(p, model=MODEL, tenant=p) for p in prompts]
        await until(lambda: said_of(tmp_path).count("held") == 2)
        before = len(said_of(tmp_path))
        third = law.gateway.ask("three " * 8, model=MODEL, tenant="three")
        await until(lambda: said_of(tmp_path)[before:] == ["tokenize"])
        assert law.node.statistics().in_flight == 3
        gate.touch()
        await law.released(*held, third)
        assert law.gateway.refused == {}
        acts = [line.split() for line in said_of(tmp_path)[before:] if line.startswith("act ")]
        assert [(what, state) for _, what, _, state in acts] == [("save", "idle")]


async def test_e15_a_save_waits_for_its_slot_alone(tmp_path: Path) -> None:
    """Two requests are held; a save of one's slot waits, is refused in time, or done after.

    Nobody else notices: the other slot goes on, and who comes meanwhile is served there. What was
    saved is brought back, and the next turn computes only what is new.
    """
    gate = tmp_path / "gate"
    subject = fake_server(tmp_path, gate=str(gate), prefill_ms=1)

    async def launch(
        model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Start the fake server with two slots."""
        return await subject.backend.start(
            subject.key, subject.manifest, subject.settings, on_progress
        )

    how = msgspec.structs.replace(settings(4), sessions=KEPT)
    keep = KeepSettings(str(tmp_path / "held"))
    async with node_of(launch, [MODEL], how, slots=2, keep=keep) as law:
        gateway = law.gateway
        held = gateway.ask("@gate one " * 8, model=MODEL, tenant="one")
        await until(lambda: "held" in said_of(tmp_path))
        other = gateway.ask("two " * 8, model=MODEL, tenant="two")
        await law.released(other)
        gateway.order_states("list", "list")
        await until(lambda: "list" in gateway.told)
        (mine,) = (one for one in gateway.told["list"].states if one.status == "busy")
        gateway.order_states("hasty", "save", mine.id)
        gateway.order_states("patient", "save", mine.id, wait_s=60.0)
        await until(lambda: "hasty" in gateway.told)
        (result,) = gateway.told["hasty"].results
        assert result.failure is not None
        assert result.failure.reason == "state_busy"
        again = gateway.ask("three " * 8, model=MODEL, tenant="three")
        await law.released(again)
        assert "patient" not in gateway.told
        gate.touch()
        await law.released(held)
        await until(lambda: "patient" in gateway.told)
        (result,) = gateway.told["patient"].results
        assert result.failure is None
        turn = gateway.ask("@gate one " * 8 + "and more", model=MODEL, tenant="one")
        await law.released(turn)
        started = gateway.events[turn][0]
        assert isinstance(started, Started)
        assert started.cached_tokens > started.prompt_tokens // 2
        acts = [line.split() for line in said_of(tmp_path) if line.startswith("act ")]
        assert {state for _, _, _, state in acts} == {"idle"}


def said_of(folder: Path) -> list[str]:
    """Everything that the server has said."""
    log = folder / "runtime.log"
    return log.read_text().splitlines() if log.exists() else []
