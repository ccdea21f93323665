"""An air-gapped machine: nothing is fetched, and not even tried."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from roost.cli.main import run
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.store.gguf_writer import tiny

# Reports every way out that Python knows: sockets that connect, names that are asked, programs.
WATCH = """
import sys
seen = []
def hook(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen"):
        seen.append(event)
sys.addaudithook(hook)
from roost.cli.main import run
code = run(sys.argv[1:])
print(f"code {code} seen {seen}")
"""


@pytest.mark.parametrize(
    "line",
    [
        ("pull", "pypi:some-package"),
        ("pull", "hf:org/repo/file.gguf"),
        ("pull", "hf:org/repo", "--all"),
        ("estimate", "hf:org/repo"),
        ("models", "select-file", "tiny", "Q8_0"),
    ],
    ids=lambda line: "-".join(line[:2]).replace(":", "-"),
)
def test_nothing_is_asked_of_anybody(tmp_path: Path, line: tuple[str, ...]) -> None:
    """No socket is opened and no program is started; the way in is named."""
    store = ModelStore(Home.open(tmp_path / "home"))
    file = tmp_path / "tiny.gguf"
    file.write_bytes(tiny())
    store.add_file(file, link=False)
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *line, "--offline", "--home", str(tmp_path / "home")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "seen []" in done.stdout, done.stderr
    if line[0] != "models":
        assert "code 2" in done.stdout
        assert "file:PATH" in done.stderr


def test_files_of_the_machine_are_installed_as_ever(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is there already is no error either, wherever it came from."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(tiny())
    line = ["pull", f"file:{file}", "--offline", "--home", str(tmp_path / "home")]
    assert run(line) == 0
    assert "installed" in capsys.readouterr().out
