"""Where conversations that outlive a node lie, when they cannot, and under whose names."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from roost.backends.base import SavedState
from roost.cli.parts.states import Lasting, kept_of, lasting_states, salted
from roost.config import Machine, Settings, load
from roost.core.ids import NodeId, SessionId, TenantId
from roost.errors import RoostError
from roost.store import states
from roost.store.home import Home
from tests.store.test_states import FACTS, KNOWN, LABEL

NODE = NodeId("node-0123456789ab")


def settings(**flags: object) -> Settings:
    """Settings of these flags alone."""
    named = {f"sessions_{name}": value for name, value in flags.items()}
    return load({}, named, "", Machine(4, "/home")).settings


def test_what_outlives_what_is_a_setting(tmp_path: Path) -> None:
    """By default memory; a folder is made and held only where it is needed."""
    home = Home.open(tmp_path)
    for words in ("", "memory", "ephemeral"):
        given = settings(persistence=words) if words else settings()
        with lasting_states(home, NODE, given) as lasting:
            assert lasting == Lasting("ephemeral" if words == "ephemeral" else "memory")
    assert not (tmp_path / "runtime-state").exists()
    for words in ("disk", "auto"):
        with lasting_states(home, NODE, settings(persistence=words)) as lasting:
            assert (lasting.persistence, lasting.found.labels) == ("disk", ())
            with pytest.raises(RoostError, match="Another process"):  # noqa: SIM117
                with lasting_states(home, NODE, settings(persistence="disk")):
                    pass


def test_a_disk_that_cannot_keep_them_is_refused_or_done_without(tmp_path: Path) -> None:
    """`disk` does not start, `auto` goes on; where there is no room that is the caller's doing."""
    home = Home.open(tmp_path)
    (tmp_path / "runtime-state").write_text("in the way")
    for given, reason in (
        (settings(persistence="disk"), "storage_error"),
        (settings(persistence="disk", disk_bytes=0), "bad_request"),
        (settings(persistence="disk", ram_bytes=0), "bad_request"),
    ):
        with pytest.raises(RoostError) as caught, lasting_states(home, NODE, given):
            pass
        assert caught.value.failure.reason == reason
    with lasting_states(home, NODE, settings(persistence="auto")) as lasting:
        assert lasting == Lasting("memory")


def test_what_was_left_is_taken_over_or_only_counted(tmp_path: Path) -> None:
    """With reuse its kin can read it; without it ages and goes as everything does."""
    home = Home.open(tmp_path)
    source = tmp_path / "source"
    source.write_bytes(b"state")
    with lasting_states(home, NODE, settings(persistence="disk")) as lasting:
        assert lasting.folder is not None
        label = msgspec.structs.replace(LABEL, session=SessionId(4), saved_unix_s=2**40)
        states.write(source, lasting.folder, "s4", label)
    with lasting_states(home, NODE, settings(persistence="disk")) as lasting:
        (kept,) = kept_of(lasting.found, reuse=True)
        assert (kept.session, kept.kin, kept.age_s) == (4, FACTS.kin, 0.0)
        assert (kept.tenant, kept.known, kept.saved) == ("t_1", KNOWN, SavedState(9, 5))
        (unused,) = kept_of(lasting.found, reuse=False)
        assert unused == msgspec.structs.replace(kept, kin="")


def test_names_of_tenants_tell_nothing(tmp_path: Path) -> None:
    """The same in every life of a home, another in every home, and never what they stand for."""
    mine, again = (salted(Home.open(tmp_path / "mine")) for _ in range(2))
    other = salted(Home.open(tmp_path / "other"))
    name = mine(TenantId("key:alice"))
    assert name == again(TenantId("key:alice"))
    assert len({name, other(TenantId("key:alice")), mine(TenantId("key:bob"))}) == 3
    assert "alice" not in name
    assert name.startswith("t_")
    assert mine(TenantId("k\udcff")), "whatever bytes a header had"
    assert (tmp_path / "mine" / "secrets" / "tenants").stat().st_mode & 0o777 == 0o600
