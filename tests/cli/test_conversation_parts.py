"""Named conversations and session tokens, from settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.cli.parts.conversations import identity_settings, infer_settings, open_journal
from roost.config import Settings, load
from roost.config.load import Machine
from roost.core.fence import Life
from roost.errors import RoostError
from roost.fleet.streams.relay import RelaySettings
from roost.store.home import Home

LIFE = Life("g", 1)
A, B = "a" * 32, "b" * 32


def given(**flags: object) -> Settings:
    """The settings in force with these flags."""
    return load({}, flags, "", Machine(4, "/nowhere")).settings


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty ROOST_HOME."""
    return Home.open(tmp_path / "home")


def test_a_home_has_a_key_of_its_own(home: Home) -> None:
    """Without keys one is made, the same for every start and every process of this home."""
    first, again = (identity_settings(given(), home, LIFE) for _ in range(2))
    assert first == again
    (key,) = first.keys
    assert len(key.secret) == 32
    assert (home.secrets / "session").stat().st_mode & 0o777 == 0o600


def test_given_keys_are_used_in_their_order(home: Home) -> None:
    """The first one signs."""
    made = identity_settings(given(session_keys=(f"new:{A}", f"old:{B}")), home, LIFE)
    assert [key.id for key in made.keys] == ["new", "old"]
    assert made.keys[0].secret == bytes.fromhex(A)
    assert not (home.secrets / "session").exists()


@pytest.mark.parametrize(
    "keys", [("noid",), ("k:xyz",), ("k:abcd",), (f":{A}",), (f"k:{A}", f"k:{B}"), (f"a b:{A}",)]
)
def test_wrong_keys_are_refused_at_the_start(home: Home, keys: tuple[str, ...]) -> None:
    """A mistake names the setting and shows nothing of the key."""
    with pytest.raises(RoostError, match=r"session\.keys") as caught:
        identity_settings(given(session_keys=keys), home, LIFE)
    assert A not in caught.value.failure.message


def test_transcripts_are_kept_where_the_setting_says(home: Home) -> None:
    """On disk unless told otherwise; off means nowhere."""
    assert open_journal(given(transcripts_keep="off"), home) is None
    for keep, on_disk in (("memory", False), ("disk", True)):
        journal = open_journal(given(transcripts_keep=keep), home)
        assert journal is not None
        journal.close()
        assert (home.root / "conversations.db").exists() is on_disk


def test_settings_reach_their_places() -> None:
    """A sealed relay, limits and switches."""
    settings = given(
        stream_on_full="drop_oldest",
        conversations_turns_waiting=3,
        coordinator_legacy_503=True,
        coordinator_omit_terminal=True,
    )
    made = infer_settings(settings, RelaySettings())
    assert made.relay == RelaySettings(on_full="drop_oldest", sealed=True)
    assert made.conversations.waiting == 3
    assert made.legacy_503
    assert not made.terminal_event
