"""A virtual environment with a router that is none of anybody's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FORWARDER = Path(__file__).parent / "peers" / "forwarder.py"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Give an environment whose `vllm-router` is the forwarder, and which has nothing else."""
    program = tmp_path / "peers" / "bin" / "vllm-router"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FORWARDER}" "$@"\n')
    program.chmod(0o755)
    return tmp_path / "peers"
