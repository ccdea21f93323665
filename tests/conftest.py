"""Fixtures that every room may use."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest
import structlog

from roost.observe import logs
from tests.patience import PATIENCE_S

# How long an example takes says how busy the machine is: the first text of a process alone needs a
# second, until Hypothesis has its tables.
hypothesis.settings.register_profile(
    "roost", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("roost")

# Fakes that are programs of their own run with the Python of the tests, whatever else there is.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

# What is asked here is on this machine, whatever proxy leads out of it.
_ELSE = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
os.environ["no_proxy"] = os.environ["NO_PROXY"] = f"{_ELSE},127.0.0.1,localhost".strip(",")

Eventually = Callable[..., Awaitable[None]]


@dataclass
class Clock:
    """A monotonic clock cranked by hand; `now` is in seconds and only ever grows."""

    now: float = 1000.0

    def advance(self, seconds: float) -> float:
        """Move time forward and say what time it is then."""
        assert seconds >= 0, "a monotonic clock does not go back"
        self.now += seconds
        return self.now

    def __call__(self) -> float:
        """Read the clock, for code that takes a function."""
        return self.now


@pytest.fixture(autouse=True)
def fresh_logs() -> Iterator[None]:
    """Let every test find the same logs: JSON from "info" on, whatever ran before it.

    A process has one set-up of its logs, and tests run in any order: one that starts a command
    would leave its form and level to whichever test comes next.
    """
    logs.configure("info", "json")
    yield
    structlog.reset_defaults()


@pytest.fixture
def clock() -> Clock:
    """Give a clock that stands still until it is told to advance."""
    return Clock()


@pytest.fixture
def rng() -> random.Random:
    """Give a random source that is the same in every run."""
    return random.Random(0)


async def until(
    condition: Callable[[], bool], *, within_s: float = PATIENCE_S, what: str = ""
) -> None:
    """Wait until a condition holds; the fixture `eventually` gives the same function."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s} s: {what or condition}")
        await asyncio.sleep(0.01)


@pytest.fixture
def eventually() -> Eventually:
    """Wait until a condition holds, for real processes and sockets; pass it a function.

    This is the one place in the tests that sleeps; with machines, pass `now` instead.
    """
    return until
