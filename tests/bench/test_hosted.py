"""What is said of hosted libraries and of engines: ratios, bars, and rates that add up."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from roost.backends.registry import HOSTED, library
from roost.bench.engines import Row, Setup, measured, text
from roost.bench.hosted import Block, judged, prompts
from tests.backends.subjects import fake_manifest


def test_a_host_is_judged_by_its_ratio(tmp_path: Path) -> None:
    """Per number of streams; what a batch could do is told and not judged."""
    blocks = {
        "alone 1": [Block(100.0, 8.0, 0.0)] * 2,
        "hosted 1": [Block(96.0, 10.0, 0.5)] * 2,
        "alone 4": [Block(100.0, 8.0, 0.0), Block(110.0, 8.0, 0.0)],
        "hosted 4": [Block(90.0, 8.0, 0.5)] * 2,
        "batch 4": [Block(220.0, 4.0, 0.0)] * 2,
    }
    report = judged(fake_manifest(tmp_path), "some", blocks)
    assert [check.met for check in report.checks] == [True, False]
    assert report.figures["1 hosted over alone"] == 0.96
    assert report.figures["1 work of hosted over alone"] == 1.25
    assert "220.0" in report.text()


@pytest.mark.parametrize("name", HOSTED)
def test_every_library_has_an_adapter(name: str) -> None:
    """It is found, and imported before the library itself is there."""
    module, _, function = library(name).loader.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_prompts_are_the_same_every_time(tmp_path: Path) -> None:
    """Of one length, of tokens that there are."""
    model = fake_manifest(tmp_path)
    assert prompts(model, 4) == prompts(model, 4)
    assert {len(one) for one in prompts(model, 4)} == {24}
    assert all(0 < token < model.vocab_size for one in prompts(model, 4) for token in one)


async def test_an_engine_is_measured_by_what_it_says(tmp_path: Path) -> None:
    """A toy that takes 1 ms for a token of a prompt and 5 ms for one of an answer."""
    model = fake_manifest(tmp_path, prefill_ms=1.0, decode_ms=5.0)
    row = await measured(model, "toy", Setup(prompt=64, tokens=16, rounds=1))
    assert (row.backend, row.model) == ("toy", "model")
    assert 0 < row.prefill < 1000
    assert 0 < row.decode < 200
    assert row.rss_mb > 1


def test_the_quickest_comes_first() -> None:
    """Sorted by decode."""
    rows = [Row("a", "m", 1.0, 10.0, 100.0, 5.0), Row("b", "m", 1.0, 10.0, 100.0, 50.0)]
    lines = text(rows).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["b", "a"]
