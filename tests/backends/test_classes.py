"""What is said of a class of backends is true of those in it."""

from __future__ import annotations

import importlib
import inspect

import pytest

from roost.backends.classes import LIBRARY, SCHEDULER
from roost.backends.registry import CLASSES, HOSTED, library


@pytest.mark.parametrize("name", HOSTED)
def test_who_schedules_its_runs_itself_is_said_to(name: str) -> None:
    """An engine with `stream` gets a thread for each run; one with `run` takes turns."""
    module = importlib.import_module(library(name).loader.partition(":")[0])
    engines = [
        one
        for _, one in inspect.getmembers(module, inspect.isclass)
        if one.__module__ == module.__name__ and hasattr(one, "tokenize")
    ]
    streams = any(hasattr(one, "stream") for one in engines)
    assert CLASSES[name] == (SCHEDULER if streams else LIBRARY)
    assert streams or any(hasattr(one, "run") for one in engines)
