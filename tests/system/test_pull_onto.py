"""`roost pull --node`: an operator's command, a gateway, its node and a hub, as they really are."""

from __future__ import annotations

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
