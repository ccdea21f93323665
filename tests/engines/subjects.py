"""Each engine here with a form of the small real model, patient: others may be busy too."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.backends.registry import make
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.errors import RoostError
from roost.testing.conformance import Subject
from tests.backends.subjects import kill_server, settings_in

OPTIONS = RuntimeOptions(ctx=256, slots=2, batch=64, threads=1, device="cpu")


def subject(
    backend: str, model: Manifest, folder: Path, options: RuntimeOptions = OPTIONS
) -> Subject:
    """Give a backend with a model; what it writes lies in `folder`."""
    key = RuntimeKey(backend, model.id, model.digest, options)
    return Subject(make(backend), key, model, settings_in(folder, 60.0), kill_server, 60.0, 600.0)


async def assert_refused(one: Subject, words: str) -> None:
    """Check that a load fails in these words."""
    with pytest.raises(RoostError, match=words) as caught:
        await one.backend.start(one.key, one.manifest, one.settings, lambda _: None)
    assert caught.value.failure.reason == "load_failed"
    assert "Traceback" not in caught.value.failure.message
