"""How many threads a runtime has, and whether they stay: only where there is no choice."""

from __future__ import annotations

import pytest

from roost.core.machine import Cores, Processor
from roost.node.machine.cores import cores_to_stay_on, threads_where_open


@pytest.mark.parametrize(
    ("processor", "cores", "stay"),
    [
        (Processor(None, 4, 4, 4), Cores((0, 1, 2, 3)), (0, 1, 2, 3)),
        (Processor(None, 8, 2, 2), Cores((5, 7)), (5, 7)),
        (Processor(None, 4, 4, 4, quota=4.0), Cores((0, 1, 2, 3)), (0, 1, 2, 3)),
        (Processor(None, 4, 4, 4, quota=3.5), Cores((0, 1, 2, 3)), ()),
        (Processor(None, 4, 4, 2), Cores((0, 1, 2, 3)), ()),
        (Processor(None, 4, 4), Cores((0, 1, 2, 3)), ()),
        (Processor(None, 4, 4, 4), Cores((0, 1, 2, 3), alike=False), ()),
        (Processor(None, 4, 4, 4), Cores(), ()),
        (Processor(None, 1, 1, 1), Cores((0,)), ()),
        (Processor(None, 600, 2, 2), Cores((510, 511)), (510, 511)),
        (Processor(None, 600, 2, 2), Cores((511, 512)), ()),
    ],
)
def test_one_thread_for_each_core(
    processor: Processor, cores: Cores, stay: tuple[int, ...]
) -> None:
    """Not with two numbers for a core, cores unknown or unlike, or less time than cores."""
    assert cores_to_stay_on(processor, cores) == stay


@pytest.mark.parametrize(
    ("processor", "threads"),
    [
        (Processor(None, 16, 16, 8), 0),
        (Processor(None, 16, 16, 8, quota=16.0), 0),
        (Processor(None, 16, 16, 8, quota=2.5), 2),
        (Processor(None, 16, 16, 8, quota=0.5), 1),
        (Processor(None, 16, 16, 8, quota=12.0), 8),
        (Processor(None, 16, 4, 2), 2),
        (Processor(None, 2, 2, 2, quota=64.0), 0),
    ],
)
def test_who_may_use_a_part_of_a_machine_has_threads_for_that_part(
    processor: Processor, threads: int
) -> None:
    """Libraries count all of its cores; who may use all leaves the number to the library."""
    assert threads_where_open(processor) == threads
