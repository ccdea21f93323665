"""What runtimes were seen to take: kept by key, bounded, and worth nothing when it is damaged."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from roost.core.ids import ModelId
from roost.core.model import RuntimeKey, RuntimeOptions
from roost.store.calibration import ENTRIES_MAX, Calibration, Weighed, expected_bytes
from roost.store.home import Home

KEY = RuntimeKey("llama_server", ModelId("m"), "sha256:1", RuntimeOptions(2048, 2, 256, 0))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A ROOST_HOME."""
    return Home.open(tmp_path)


def weighed(measured: int, estimate: int | None = 1000, key: RuntimeKey = KEY) -> Weighed:
    """A measurement of this key."""
    return Weighed(key.backend, key.digest, key.options, estimate, measured, 7)


def test_what_was_seen_last_is_found_after_a_restart(home: Home) -> None:
    """One figure for a key, whatever the model is called."""
    Calibration(home).note(weighed(1200))
    Calibration(home).note(weighed(1300))
    known = Calibration(home).all()
    assert known == (weighed(1300),)
    renamed = msgspec.structs.replace(KEY, model=ModelId("other"))
    assert expected_bytes(known, renamed, 1000) == 1300
    assert expected_bytes((), KEY, 1000) is None


def test_other_options_are_reckoned_from_what_was_seen() -> None:
    """The same weights take as much more than is calculated as they did; others tell nothing."""
    wider = msgspec.structs.replace(KEY, options=RuntimeOptions(8192, 4, 256, 0))
    assert expected_bytes([weighed(1300)], wider, 5000) == 5300
    assert expected_bytes([weighed(1300), weighed(990)], wider, 5000) == 4990
    assert expected_bytes([weighed(1300)], wider, None) is None
    assert expected_bytes([weighed(1300, None)], wider, 5000) is None
    for field, value in (("digest", "sha256:2"), ("backend", "other")):
        assert expected_bytes(
            [weighed(1300)], msgspec.structs.replace(KEY, **{field: value}), 1
        ) is (None)


def test_it_is_bounded(home: Home) -> None:
    """The ones measured longest ago go first."""
    calibration = Calibration(home)
    many = [
        weighed(number, key=msgspec.structs.replace(KEY, digest=f"sha256:{number}"))
        for number in range(ENTRIES_MAX)
    ]
    (home.root / "calibration.json").write_bytes(msgspec.json.encode(many))
    calibration.note(weighed(5, key=msgspec.structs.replace(KEY, digest="sha256:new")))
    known = calibration.all()
    assert len(known) == ENTRIES_MAX
    assert (known[0].digest, known[-1].digest) == ("sha256:1", "sha256:new")


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b'[{"backend": 1}]', b"\xff\xfe", b"null"])
def test_a_damaged_file_is_begun_anew(home: Home, raw: bytes) -> None:
    """It costs a measurement, and nothing else."""
    (home.root / "calibration.json").write_bytes(raw)
    calibration = Calibration(home)
    assert calibration.all() == ()
    calibration.note(weighed(5))
    assert calibration.all() == (weighed(5),)
    assert (home.root / "calibration.json").stat().st_mode & 0o777 == 0o600
