"""Responses that are kept, and a disk that cannot be read."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from roost.store.conversations.journal import Journal, JournalSettings
from roost.store.conversations.transcripts import open_disk
from roost.store.home import Home
from tests.gateway.conftest import ask, staged


async def test_a_disk_that_fails_is_told_whatever_is_asked_of_a_response(tmp_path: Path) -> None:
    """Nobody knows whether there is one: "there is none" would be a lie."""
    home = Home.open(tmp_path / "home")
    journal = Journal(open_disk(home, 2**30), JournalSettings(retry_s=60.0))
    with closing(open_disk(home, 2**30)) as other:
        other.execute("drop table responses")
    path = "/v1/responses/resp_1"
    async with staged(journal=journal) as stage:
        for verb, where in (("GET", path), ("POST", f"{path}/cancel"), ("DELETE", path)):
            reply = await ask(stage.port, verb, where)
            error = reply.json()["error"]
            assert isinstance(error, dict)
            assert (verb, reply.status, error["code"]) == (verb, 503, "storage_error")
