"""The hosted libraries on a small real model: each keeps what it claims, as its page says."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from roost.core.model import RuntimeOptions
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from roost.testing.cases import Case
from roost.testing.conformance import CASES, examine, failed, table
from tests.engines.conftest import GGUF, ONNX, SAFETENSORS
from tests.engines.subjects import OPTIONS, subject

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]

LONGEST = {
    *("slow readers wait alone", "stop strings span the seam", "characters survive the seam"),
    "log probabilities survive the seam",
}
"""Of what is tried of every hosted library, left out where they take minutes."""

FEW = {
    *("text is completed", "a chat is answered", "token ids are told"),
    *("control tokens stay text", "log probabilities add up", "death is told"),
}
"""Without long prompts, which take Candle minutes with a GGUF's kind of weights."""

SHORT = {
    *("text is completed", "a chat is answered", "stop strings stop", "limits hold"),
    *("leaving decode frees", "seeds repeat", "answers are continued", "prefixes are reused"),
    *("log probabilities add up", "control tokens stay text", "death is told"),
}
"""Without long prompts, which take MLX minutes on a processor; docs/capabilities.md has all."""

WIDE = RuntimeOptions(ctx=512, slots=2, batch=128, threads=1, device="cpu")
BY_ITSELF = RuntimeOptions(ctx=512, slots=2, batch=128, threads=1)
"""On the processor that the folder names itself."""

ANY = {"kept", "not claimed", "not applicable"}


def named(names: set[str]) -> tuple[Case, ...]:
    """Give the cases of these names; each of them has to be one."""
    cases = tuple(case for case in CASES if case.name in names)
    assert len(cases) == len(names)
    return cases


class Row(NamedTuple):
    """An engine with a form of the model, and what is tried; it ends in one of the `ends`.

    In `parts`, since all cases together take longer on a busy machine than any one test may.
    """

    backend: str
    model: str
    options: RuntimeOptions
    cases: tuple[Case, ...] = tuple(CASES)
    ends: set[str] = ANY
    parts: int = 1


ROWS = {
    "transformers": Row("transformers", SAFETENSORS, WIDE, parts=5),
    "onnx_genai": Row("onnx_genai", ONNX, BY_ITSELF, parts=3),
    "candle": Row(
        *("candle", SAFETENSORS, OPTIONS),
        named({case.name for case in CASES} - LONGEST),
        parts=3,
    ),
    "candle, GGUF": Row("candle", GGUF, OPTIONS, named(FEW), {"kept"}),
    "mlx": Row("mlx", SAFETENSORS, OPTIONS, named(SHORT), {"kept"}),
}


@pytest.mark.parametrize(
    ("row", "part"),
    [
        pytest.param(row, part, id=f"{name}-{part}")
        for name, row in ROWS.items()
        for part in range(row.parts)
    ],
)
async def test_every_promise_is_kept(row: Row, part: int, home: Path, tmp_path: Path) -> None:
    """Tokens exact to the id, several answers at once, likelihoods, caches cut back, and an end."""
    model = ModelStore(Home.open(home)).get(row.model)
    one = subject(row.backend, model, tmp_path, row.options)
    results = await examine(one, row.cases[part :: row.parts])
    assert failed(results) == [], table(results)
    assert {one.status for one in results} <= row.ends, table(results)
