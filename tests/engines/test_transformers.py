"""Transformers serves a small real model that `roost convert` has made out of a GGUF."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.core.model import Manifest
from tests.engines.asking import post
from tests.system.processes import Roost

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]


def test_a_folder_is_served(home: Path, folder: Manifest, tmp_path: Path) -> None:
    """`auto` takes the backend that reads it, and a chat is answered."""
    arguments = ("serve", "--port", "0", "--ctx", "512", "--slots", "1", "--dtype", "bfloat16")
    with Roost(tmp_path / "log", *arguments, home=home) as roost:
        url = roost.url()
        body = (
            b'{"model":"' + folder.id.encode() + b'","max_tokens":8,"temperature":0,'
            b'"messages":[{"role":"user","content":"What is the capital of France?"}]}'
        )
        status, answer = post(url, body)
        assert (status, b"Paris" in answer) == (200, True), answer
