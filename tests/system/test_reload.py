"""HUP: settings are read again while a process serves, and never end it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from tests.system.processes import Roost, fetch, get, wait

KEY = "sk-a-key-of-the-settings"
Start = Callable[..., Roost]


def holds_back(pid: int) -> bool:
    """Whether a process holds HUP back: from its first line of Python on, until it is asked for."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    masks = dict(line.split(":", 1) for line in status.splitlines() if line.startswith("Sig"))
    return bool(int(masks["SigBlk"], 16) & 1 << signal.SIGHUP - 1)


def names(url: str) -> set[str]:
    """List what is served."""
    listed = msgspec.json.decode(fetch(url, "/v1/models"), type=dict[str, object])
    models = msgspec.convert(listed["data"], list[dict[str, object]])
    return {str(model["id"]) for model in models}


def node(url: str) -> dict[str, object]:
    """Give what the only node says of itself."""
    status, body = get(url, "/roost/v1/fleet", KEY)
    assert status == 200, body
    fleet = msgspec.json.decode(body, type=dict[str, object])
    return msgspec.convert(fleet["nodes"], list[dict[str, object]])[0]


@pytest.mark.slow
def test_hup_reads_the_settings_again_and_is_never_too_early(start: Start, home: Path) -> None:
    """One in the middle of the start counts when that is over; later ones at once."""
    file = home / "roost.toml"
    file.write_text("port = 0\n")
    roost = start("serve", "--backend", "scripted")
    wait(lambda: holds_back(roost.process.pid), "the first line was reached")
    file.write_text('port = 0\naliases = ["early=tiny"]\n')
    roost.signal(signal.SIGHUP)
    url = roost.url()
    roost.wait_for('"reloaded"')
    wait(lambda: names(url) == {"tiny", "early"}, "what was written meanwhile counts")
    file.write_text('port = 1\naliases = ["late=tiny"]\n[queue]\nlength = 7\n')
    roost.signal(signal.SIGHUP)
    roost.wait_for(r"reload_needs_restart.*port|port.*reload_needs_restart")
    assert names(url) == {"tiny", "late"}
    file.write_text('aliases = ["late=tiny", "late=other"]\n')
    roost.signal(signal.SIGHUP)
    roost.wait_for("this name stands for another model already")
    file.write_text('default_model = "nope"\n')
    roost.signal(signal.SIGHUP)
    roost.wait_for("no model 'nope' is installed")
    assert names(url) == {"tiny", "late"}
    file.write_text(f'aliases = ["late=tiny"]\n[[keys]]\nname = "me"\nkey = "{KEY}"\n')
    roost.signal(signal.SIGHUP)
    wait(lambda: get(url, "/v1/models")[0] == 401, "a key is needed")
    assert get(url, "/v1/models", KEY)[0] == 200
    limited = f'name = "me"\nkey = "{KEY}"\nmodels = ["nope"]\n'
    file.write_text(f'aliases = ["late=tiny"]\n[[keys]]\n{limited}')
    roost.signal(signal.SIGHUP)
    wait(lambda: b"late" not in get(url, "/v1/models", KEY)[1], "the key may use less")
    assert KEY not in roost.output
    limits = 'max_runtimes = 3\nmax_in_flight = 9\n[runtime]\nkeep_alive = ["tiny=60"]\n'
    file.write_text(f"{limits}[[keys]]\n{limited}")
    roost.signal(signal.SIGHUP)
    wait(lambda: node(url)["max_runtimes"] == 3, "the node has new limits")
    assert node(url)["max_in_flight"] == 9
    file.write_text('[runtime]\nkeep_alive = ["tiny=often"]\n')
    roost.signal(signal.SIGHUP)
    roost.wait_for("write a model, = and seconds")
    assert node(url)["max_runtimes"] == 3
    assert not holds_back(roost.process.pid)
    for child in roost.descendants():
        # One that has ended meanwhile holds nothing back.
        with suppress(FileNotFoundError, ProcessLookupError):
            assert not holds_back(child.pid)
    roost.signal(signal.SIGTERM)
    assert roost.ends() == 0
