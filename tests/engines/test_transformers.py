"""Transformers, hosted, on a small real model that `roost convert` has made out of a GGUF."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.backends.registry import make
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.testing.conformance import CASES, Subject, examine, failed, table
from tests.backends.subjects import kill_server, settings_in
from tests.engines.asking import post
from tests.system.processes import Roost

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]
PARTS = 5
"""On a busy machine all cases together take longer than any one test may."""


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_promise_is_kept(part: int, folder: Manifest, tmp_path: Path) -> None:
    """On the processor, in the model's own numbers, with one thread: others may be busy too."""
    options = RuntimeOptions(ctx=512, slots=2, batch=128, threads=1, device="cpu")
    key = RuntimeKey("transformers", folder.id, folder.digest, options)
    settings = settings_in(tmp_path)
    backend = make("transformers")
    subject = Subject(
        backend, key, folder, settings, kill_server, patience_s=30, case_timeout_s=300
    )
    results = await examine(subject, CASES[part::PARTS])
    assert failed(results) == [], table(results)
    assert {one.status for one in results} <= {"kept", "not claimed", "not applicable"}


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
