"""Jobs of nodes are followed to their end, all of them at once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from roost.cli.following import Job, Seen, follow

A, B = ("a", "1"), ("b", "1")


def test_all_are_followed_and_what_is_new_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The same words once; ends that are good on stdout, all else on stderr; the rest goes on."""
    done, failed = Seen("m is loaded", over=True), Seen("no room", over=True, failed=True)
    looks: list[Mapping[Job, Seen]] = [
        {A: Seen("loads"), B: Seen("waits"), ("c", "1"): Seen("of somebody else")},
        {A: failed, B: Seen("waits")},
        {B: done},
    ]
    assert not follow([A, B], lambda: looks.pop(0), poll_s=0)
    told = capsys.readouterr()
    assert told.err.splitlines() == ["a: loads", "b: waits", "a: no room"]
    assert told.out == "b: m is loaded\n"
    assert follow([B], lambda: {B: done})
    assert follow([], dict)
