"""Large bodies are read in a child; accidents to it cost nobody an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import psutil
import pytest

from roost.core.ids import TenantId
from roost.gateway.loop import loop_factory
from roost.gateway.reading.parser import Parser
from roost.gateway.reading.parsing import Job, Parsed, Unreadable, parse
from tests.children import called

GOOD = Job(
    "chat", b'{"messages":[{"role":"user","content":"hi"}]}', TenantId("t"), "m", strict=False
)
BAD = Job("chat", b'{"messages":3}', TenantId("t"), "m", strict=False)


def children() -> list[psutil.Process]:
    """List the parsing children of this process."""
    return called("parser_child")


@pytest.mark.parametrize(
    "loops", [asyncio.new_event_loop, loop_factory()], ids=["asyncio", "uvloop"]
)
def test_the_child_reads_what_the_loop_would(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The same outcome for good and bad bodies, from one child, which is gone afterwards."""

    async def scene() -> None:
        parser = Parser()
        try:
            for job in (GOOD, BAD, GOOD):
                assert await parser.parse(job) == parse(job)
            assert len(children()) == 1
        finally:
            await parser.close()
        assert children() == []

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(scene())


@pytest.mark.parametrize(
    "loops", [asyncio.new_event_loop, loop_factory()], ids=["asyncio", "uvloop"]
)
def test_a_killed_child_is_replaced(loops: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Killed while it idles: the next large body is read by another."""

    async def scene() -> None:
        parser = Parser()
        try:
            assert isinstance(await parser.parse(GOOD), Parsed)
            (child,) = children()
            child.kill()
            assert isinstance(await parser.parse(GOOD), Parsed)
            assert isinstance(await parser.parse(BAD), Unreadable)
        finally:
            await parser.close()

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(scene())
