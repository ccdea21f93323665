"""The pages' pure parts, in Node: the same files, beside their tests in a folder of modules."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from roost.gateway.desk.pages import read_web

pytestmark = [pytest.mark.web, pytest.mark.slow, pytest.mark.timeout(180)]
TESTS = Path(__file__).parent / "js"


def test_what_needs_no_browser(tmp_path: Path) -> None:
    """Streams, answers, conversations, Markdown, and what the views show."""
    node = shutil.which("node")
    assert node, "there is no Node here: `make test-web` installs it as root, with apt-get"
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for file in read_web().values():
        (tmp_path / file.name).write_bytes(file.body)
    copied = [shutil.copy(one, tmp_path) for one in sorted(TESTS.glob("*.test.js"))]
    ran = subprocess.run(
        [node, "--test", "--test-reporter=tap", *copied],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = re.search(r"^# pass (\d+)$", ran.stdout, re.MULTILINE)
    assert passed, ran.stdout
    assert int(passed[1]) >= len(copied)
