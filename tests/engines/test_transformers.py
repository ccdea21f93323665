"""Transformers, hosted, on a small real model that `roost convert` has made out of a GGUF."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from roost.backends.registry import make
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.store.home import Home
from roost.store.models import ModelStore
from roost.testing.conformance import CASES, Subject, examine, failed, table
from tests.backends.subjects import kill_server, settings_in
from tests.smollm2 import smollm2_path
from tests.system.processes import Roost

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]
PARTS = 5
"""On a busy machine all cases together take longer than any one test may."""

NAME = "smollm2-135m-instruct-safetensors"


def converted(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `roost convert` over this home."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    return subprocess.run(
        [sys.executable, "-m", "roost", "convert", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**environ, "ROOST_HOME": str(home)},
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a ROOST_HOME with the model as a GGUF, and as the folder that was made of it."""
    root = tmp_path_factory.mktemp("home")
    store = ModelStore(Home.open(root))
    gguf = store.add_file(smollm2_path(), link=True)
    done = converted(root, gguf.id)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture
def folder(home: Path) -> Manifest:
    """Give the folder's manifest."""
    return ModelStore(Home.open(home)).get(NAME)


def test_a_conversion_is_made_once(home: Path, folder: Manifest) -> None:
    """The same file gives the same folder, which is looked through and not made again."""
    assert (folder.format, folder.ctx_train, folder.vocab_size) == ("safetensors", 8192, 49152)
    assert folder.chat_template is not None
    again = converted(home, "smollm2-135m-instruct")
    assert "was made before" in again.stdout, again.stderr
    config = Path(folder.path)
    config.write_text(config.read_text() + " ")
    spoilt = converted(home, "smollm2-135m-instruct")
    assert (spoilt.returncode, "is not as it was made" in spoilt.stderr) == (2, True)
    config.write_text(config.read_text()[:-1])


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


def post(url: str, body: bytes) -> tuple[int, bytes]:
    """Ask for a chat."""
    import urllib.request

    asked = urllib.request.Request(f"{url}/v1/chat/completions", body)  # noqa: S310
    with urllib.request.urlopen(asked, timeout=300) as reply:  # noqa: S310
        return reply.status, reply.read()
