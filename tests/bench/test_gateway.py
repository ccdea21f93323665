"""The benchmark itself, end to end and tiny. It exists only where a C compiler does."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from roost.bench import gateway
from roost.bench.loads import Block
from roost.bench.processes import cpu_s, end, first_line, pinned, python
from roost.bench.variants import VARIANTS, Scene


def rows(told: str) -> list[list[str]]:
    """Take the rows of the table in Markdown out of what a run has said."""
    lines = (line.strip("| ") for line in told.splitlines() if line.startswith("| "))
    return [line.split(" | ") for line in lines]


if shutil.which("cc"):

    @pytest.mark.drill
    def test_a_tiny_run(
        tmp_path: Path, environment: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Direct, through roost and through a peer every answer is whole; each death is told."""
        out = tmp_path / "blocks.json"
        words = ["--only", "roost", "vllm-router", "--peers", str(environment)]
        words += ["--rounds", "1", "--block-s", "0.1", "--json", str(out)]
        bars = gateway.run(gateway.parse(words))
        blocks = msgspec.json.decode(out.read_bytes(), type=list[Block])
        assert {b.variant for b in blocks} == {"direct", "roost", "vllm-router"}
        assert all(b.counted.requests > 0 and b.counted.failures == 0 for b in blocks)
        assert all((b.cpu_ms > 0) is (b.variant != "direct") for b in blocks)
        streams = [b.counted for b in blocks if b.load.startswith("stream")]
        # A block may end in mid-stream: at most one stream a connection is counted in part.
        assert all(0 <= c.events - 65 * c.requests <= 64 * 16 for c in streams)
        told = capsys.readouterr().out
        assert "CPU ms/req" in told
        ends = {row[0]: row[-2:] for row in rows(told)}
        assert ends["roost"] == ["error event", "503, retry-after"]
        assert ends["vllm-router"] == ["broken body", "silent"]
        assert len(bars) == 2


def test_the_stub_itself_is_a_variant(tmp_path: Path) -> None:
    """It and roost are always there, and before the stub itself nothing is started."""
    assert list(VARIANTS)[:2] == ["direct", "roost"]
    running = VARIANTS["direct"](Scene(1, tmp_path, "key"))
    assert running is not None
    assert running.port == 1
    running.stop()


@pytest.mark.slow
def test_processes_are_accounted_and_ended() -> None:
    """The CPU of a process and its children is seen; ending ends all of them."""
    child = "x = sum(range(3_000_000)); print(1, flush=True); import time; time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = pinned([python(), "-c", parent], 0)
    assert first_line(process, 10) == "1\n"
    assert cpu_s(process.pid) > 0.02
    end(process)
    assert process.returncode is not None
    assert cpu_s(process.pid) == 0.0


@pytest.mark.slow
def test_silent_process_is_an_error() -> None:
    """A process that ends without a word did not start."""
    process = pinned([python(), "-c", "pass"], 0)
    with pytest.raises(TimeoutError):
        first_line(process, 10)
    end(process)
