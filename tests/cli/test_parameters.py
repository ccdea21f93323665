"""`roost parameters`, and that its list is the one that backends check by."""

from __future__ import annotations

import json

import pytest

from roost.backends import checks, registry
from roost.cli import main
from roost.core.model import Capabilities
from roost.core.parameters import PARAMETERS

BY_NAME = {one.name: one for one in PARAMETERS}


def test_ranges_are_those_that_are_checked() -> None:
    """What the list says is what is refused beyond it."""
    assert {
        **{name: (float(a), float(b)) for name, (a, b) in checks.REAL.items()},
        **{name: (float(a), float(b)) for name, (a, b) in checks.WHOLE.items()},
    } == {
        one.name: (one.least, one.most)
        for one in PARAMETERS
        if one.name in checks.REAL | checks.WHOLE
    }
    assert BY_NAME["stop"].most == checks.STOPS_MAX
    assert BY_NAME["logprobs"].most == checks.TOP_LOGPROBS_MAX


def test_what_is_needed_is_a_capability() -> None:
    """A word that no backend has would leave a parameter to nobody."""
    assert {one.needs for one in PARAMETERS} <= {"", *Capabilities.__struct_fields__}


def test_all_of_them_with_who_heeds_them(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each; what not every backend does says who does."""
    assert main.run(["parameters"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(lines) == set(BY_NAME)
    assert "0 to 2 " in lines["temperature"]
    assert "from 1" in lines["max_tokens"]
    assert "0 to 16 texts" in lines["stop"]
    assert "(llama_server" in lines["logprobs"]
    assert "scripted" not in lines["logprobs"]


def test_those_of_one_backend(capsys: pytest.CaptureFixture[str]) -> None:
    """What it does not heed is not listed."""
    assert main.run(["parameters", "--for", "scripted", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    names = {row["parameter"]["name"] for row in told}
    assert "logprobs" not in names
    assert "seed" in names
    assert {tuple(row["backends"]) for row in told} == {("scripted",)}
    with pytest.raises(SystemExit) as ended:
        main.run(["parameters", "--for", "nothing"])
    assert ended.value.code == 2
    assert all(trait.name in registry.NAMES for trait in registry.traits())
