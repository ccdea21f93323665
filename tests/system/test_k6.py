"""The k6 scripts, played by the real k6 against a real gateway; results go into `bench report`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roost.cli import main
from tests.source import ROOT
from tests.system.conftest import MODEL, Start
from tests.system.processes import is_ready, wait

SWEEP = ROOT / "bench" / "k6" / "sweep.sh"
BASH = shutil.which("bash") or "bash"
SLOW = "@script " + json.dumps({"pieces": ["a"] * 10, "delay_ms": 60})


def k6_folder() -> str:
    """Give the folder of the k6 that is installed beside this Python."""
    found = shutil.which(
        "k6", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    assert found, "the developer tools bring k6"
    return str(Path(found).parent)


def sweep(folder: Path, mode: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the sweep, with settings on top of the environment."""
    path = f"{k6_folder()}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "RESULTS": str(folder), **settings}
    words = [BASH, str(SWEEP), mode]
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.drill
@pytest.mark.timeout(200)
def test_a_sweep_counts_what_is_admitted_and_what_is_shed(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below what two places can do nothing is shed, far above most is; served latency stays."""
    scripted = ("--backend", "scripted", "--port", "0", "--slots", "2")
    with start("serve", *scripted) as server:
        wait(lambda: is_ready(server.url()), "the server is ready")
        upstream = ("--upstream", server.url(), "--upstream-max-in-flight", "2")
        with start("gateway", "--port", "0", *upstream) as gateway:
            wait(lambda: is_ready(gateway.url()), "the gateway is ready")
            host = gateway.url().removeprefix("http://")
            shape = {"RATES": "1 12", "UNIT": "1s", "DURATION": "4s", "REST": "1"}
            told = sweep(tmp_path, "on", GATEWAY=host, MODEL=MODEL, PROMPT=SLOW, **shape)
    assert told.returncode == 0, told.stderr
    low, high = (json.loads((tmp_path / f"on-{rate}.json").read_text()) for rate in (1, 12))
    assert (low["shed"], low["failed"], high["failed"]) == (0, 0, 0)
    assert 4 <= low["ok"] <= 5
    assert high["shed"] > high["ok"] > 0
    assert 47 <= high["ok"] + high["shed"] + high["dropped"] <= 49
    assert low["e2e_ms"]["p50"] >= 600
    assert high["e2e_ms"]["p50"] < 2 * low["e2e_ms"]["p50"]
    assert "on 12/1s: " in told.stdout
    files = [str(tmp_path / f"on-{rate}.json") for rate in (1, 12)]
    assert main.run(["bench", "report", *files]) == 0
    assert f"| on-12 | {high['ok']} | {high['shed']} | 0 |" in capsys.readouterr().out


def test_a_sweep_has_to_be_on_or_off(tmp_path: Path) -> None:
    """Anything else is a word about how it is used, and 2."""
    path = os.environ["PATH"]
    for words in ([], ["maybe"]):
        told = subprocess.run(
            [BASH, str(SWEEP), *words],
            env={"PATH": path},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert told.returncode == 2
        assert "usage: sweep.sh on|off" in told.stderr
    assert list(tmp_path.iterdir()) == []
