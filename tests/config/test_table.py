"""The table itself, and the typed settings beside it."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args, get_type_hints

from roost.config.load import Machine, load
from roost.config.settings import Settings
from roost.config.table import TABLE
from roost.core.kv import CacheType


def test_settings_have_the_rows_of_the_table_in_order() -> None:
    """Every row is an attribute of the same type, and no attribute lacks a row."""
    assert Settings._fields == tuple(row.attribute for row in TABLE)
    hints = get_type_hints(Settings)
    types = {name: tuple if hint == tuple[str, ...] else hint for name, hint in hints.items()}
    assert types == {row.attribute: type(row.default) for row in TABLE}


def test_names_of_one_setting_belong_together() -> None:
    """A dotted name is spelled in the way of each source."""
    row = next(row for row in TABLE if row.name == "stream.write_deadline_s")
    assert row.attribute == "stream_write_deadline_s"
    assert row.flag == "--stream-write-deadline-s"
    assert row.variable == "ROOST_STREAM_WRITE_DEADLINE_S"


def test_the_choices_of_a_cache_are_those_that_there_are() -> None:
    """The table says them without loading the types that say the same."""
    rows = {row.name: row.choices for row in TABLE if row.name.startswith("cache_type_")}
    assert {*map(frozenset, rows.values())} == {frozenset(get_args(CacheType))}


def test_names_are_unique_in_every_spelling() -> None:
    """No two settings share a flag or a variable, older names included."""
    variables = [name for row in TABLE for name in (row.variable, *row.aliases)]
    assert len(set(variables)) == len(variables)
    assert len({row.attribute for row in TABLE}) == len(TABLE)


def test_rows_are_complete() -> None:
    """Names end in their unit, help is a sentence, defaults are legal."""
    for row in TABLE:
        assert row.help.endswith(".")
        assert row.name.endswith("_s") == (row.unit == "s")
        if row.unit == "bytes":
            assert row.name.endswith("_bytes")
        if isinstance(row.default, (int, float)):
            assert row.least <= row.default <= row.most
        assert not row.choices or row.default in row.choices


def test_settings_are_frozen() -> None:
    """A setting cannot be changed behind the back of those who read it."""
    settings = load({}, {}, "", Machine(4, "/srv/roost")).settings
    assert settings._replace(port=1).port == 1
    assert settings.port == 7878


def test_import_stays_light() -> None:
    """Help and completion load the table, so it pulls in nothing heavy."""
    code = "import sys, roost.config, roost.config.show; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "msgspec",
        "platformdirs",
        "tomllib",
        "argparse",
        "dataclasses",
        "asyncio",
        "structlog",
    }
    assert heavy.intersection(done.stdout.split()) == set()
