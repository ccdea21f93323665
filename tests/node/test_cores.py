"""Whether a runtime's threads stay on cores of their own: only where there is no choice."""

from __future__ import annotations

import pytest

from roost.core.machine import Cores, Processor
from roost.node.machine.cores import cores_to_stay_on


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
