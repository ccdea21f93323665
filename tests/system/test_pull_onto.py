"""`roost pull --node`: an operator's command, a gateway, its node and a hub, as they really are."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import msgspec
import pytest

from roost.cli import main
from tests.store.gguf_writer import Typed, tiny
from tests.store.hub import Page, running_hub
from tests.system.conftest import MODEL, Start
from tests.system.processes import fetch, is_ready, wait

SOURCE = "hf:org/repo"


def offered(url: str) -> set[str]:
    """What clients can ask for."""
    return {one["id"] for one in msgspec.json.decode(fetch(url, "/v1/models"))["data"]}


@pytest.mark.slow
def test_nodes_fetch_what_an_operator_wants(
    start: Start, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is installed there and offered without a restart; what cannot be had is told in words."""
    listed = {"siblings": [{"rfilename": "new.gguf"}], "cardData": {"license": "gemma"}}
    with running_hub() as hub:
        hub.pages["/api/models/org/repo"] = Page(msgspec.json.encode(listed), etag=None)
        raw = tiny(general__name=Typed("str", "New"))
        hub.pages["/org/repo/resolve/main/new.gguf"] = Page(raw)
        (home / "roost.toml").write_text(f'[hub]\nendpoint = "{hub.url}"\n[models]\npoll_s = 0.2\n')
        url = start("serve", "--port", "0", "--backend", "scripted").url()
        wait(partial(is_ready, url), "it is ready")
        asked = ("--node", "all", "--url", url, "--home", str(tmp_path / "elsewhere"))
        assert main.run(["pull", SOURCE, *asked]) == 1
        assert "--accept-licence" in capsys.readouterr().err
        assert offered(url) == {MODEL}
        assert main.run(["pull", SOURCE, "--accept-licence", *asked]) == 0
        assert "new is installed" in capsys.readouterr().out
        wait(lambda: offered(url) == {MODEL, "new"}, "it is offered")
        assert main.run(["pull", "file:/etc/passwd", *asked]) == 1
        assert main.run(["pull", SOURCE, "--node", "none", *asked[2:]]) == 1
    assert not list((tmp_path / "elsewhere").glob("models/*"))


@pytest.mark.slow
def test_ctrl_c_keeps_what_has_arrived_and_says_how_to_go_on(start: Start, tmp_path: Path) -> None:
    """Exit code 130; the same command asks for the rest alone."""
    raw = tiny(general__name=Typed("str", "New"))
    with running_hub() as hub:
        page = Page(raw, cuts=[1000], stalls=True)
        hub.pages["/org/repo/resolve/main/new.gguf"] = page
        line = ("pull", f"{SOURCE}/new.gguf", "--hub-endpoint", hub.url)
        first = start(*line)
        wait(lambda: bool(hub.seen) and not page.cuts, "the first bytes are on their way")
        first.wait_for("downloading")
        parts = tmp_path / "home" / "downloads"
        wait(lambda: any(one.stat().st_size for one in parts.glob("*.part")), "they have arrived")
        first.signal(signal.SIGINT)
        assert first.ends() == 130
        assert "what has arrived is kept; the same command goes on" in first.output
        assert "Traceback" not in first.output
        again = start(*line)
        assert again.ends() == 0, again.output
        assert [found for found in hub.ranges() if found] == ["bytes=1000-"]


@pytest.mark.slow
def test_an_operator_ends_a_pull_of_a_node(
    start: Start, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though its server has fallen silent; whoever waited for it is told."""
    raw = tiny(general__name=Typed("str", "New"))
    with running_hub() as hub:
        page = Page(raw, cuts=[1000], stalls=True)
        hub.pages["/org/repo/resolve/main/new.gguf"] = page
        (home / "roost.toml").write_text(f'[hub]\nendpoint = "{hub.url}"\n')
        source = f"{SOURCE}/new.gguf"
        url = start("serve", "--port", "0", "--backend", "scripted").url()
        wait(partial(is_ready, url), "it is ready")
        where = ("--node", "all", "--url", url)
        waiting = start("pull", source, *where)
        waiting.wait_for("downloading")
        cancel = ["pull", source, *where, "--cancel", "--home", str(home)]
        assert main.run(cancel) == 0
        assert "keeps what has arrived" in capsys.readouterr().out
        assert waiting.ends() == 1
        assert "An operator ended it" in waiting.output
        assert main.run(cancel) == 1
        assert "no node there is pulling" in capsys.readouterr().err
