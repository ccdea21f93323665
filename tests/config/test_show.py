"""The table as flags, as `config show` and as documentation."""

from __future__ import annotations

import argparse

import pytest

from roost.config.load import MASK, Machine, load
from roost.config.show import add_flags, describe, reference_markdown
from roost.config.table import TABLE

MACHINE = Machine(4, "/srv/roost")


def parser(*names: str) -> argparse.ArgumentParser:
    """Make a parser with the flags of the named settings."""
    result = argparse.ArgumentParser()
    add_flags(result, names)
    return result


def test_flags_reach_the_settings() -> None:
    """What argparse collects is what `load` takes, a switch with and without its value."""
    flags = parser("port", "queue.", "strict", "insecure_http")
    line = ["--port", "1", "--queue-length", "2", "--strict", "--insecure-http", "false"]
    settings = load({}, vars(flags.parse_args(line)), "", MACHINE).settings
    assert (settings.port, settings.queue_length, settings.queue_wait_s) == (1, 2, 60.0)
    assert (settings.strict, settings.insecure_http) == (True, False)


def test_flags_not_given_are_none() -> None:
    """Without flags the other sources decide."""
    assert set(vars(parser("port", "queue.").parse_args([])).values()) == {None}


def test_a_verb_cannot_ask_for_a_setting_that_is_none() -> None:
    """A mistyped name in a verb is a defect and says so."""
    with pytest.raises(AssertionError, match="prot is no setting"):
        parser("prot")


def test_help_names_units_and_choices() -> None:
    """The help of a flag shows what to write."""
    text = parser("queue.wait_s", "policy", "strict", "allowed_hosts", "ctx").format_help()
    for words in ("--queue-wait-s S", "{predicted,least_inflight,weighted,", "A,B", "--ctx TOKENS"):
        assert words in text


def test_description_tells_values_and_origins_and_masks_secrets() -> None:
    """Every setting is listed once; a secret that is set is masked, one that is not is empty."""
    shown = {s.name: s for s in describe(load({"ROOST_API_KEY": "sk-1"}, {}, "", MACHINE))}
    assert list(shown) == [row.name for row in TABLE]
    assert (shown["api_key"].value, shown["api_key"].origin) == (MASK, "ROOST_API_KEY")
    assert (shown["queue.wait_s"].value, shown["queue.wait_s"].unit) == (60.0, "s")
    unset = {s.name: s for s in describe(load({}, {}, "", MACHINE))}
    assert unset["api_key"].value == ""


def test_reference_has_a_line_for_every_setting() -> None:
    """The documentation names each setting, its flag and its variables."""
    text = reference_markdown()
    for row in TABLE:
        assert f"| `{row.name}` | `{row.flag}` | `{row.variable}`" in text
    assert "`ROOST_MAX_IN_FLIGHT`, `ROOST_MAX_INFLIGHT` | `0` | requests |" in text
