"""Fields that an API here does not know: read past and named in the log, or refused if `strict`."""

from __future__ import annotations

import copy
import json
from typing import NamedTuple

import msgspec
import pytest

from roost.errors import Failure
from roost.gateway.failures import errors_under
from roost.observe import logs
from tests.gateway.conftest import SETTINGS, Stage, ask, staged
from tests.gateway.puppet import MODEL

HELLO = {"role": "user", "content": "hello"}
STRANGE = {**HELLO, "mood": "good"}
CHAT: dict[str, object] = {"model": MODEL, "messages": [HELLO]}


class Case(NamedTuple):
    """A body for `path` with fields that nobody knows, by name; `plain` is one without."""

    path: str
    strange: dict[str, object]
    names: tuple[str, ...]
    plain: dict[str, object]


CASES = (
    Case(
        "/v1/chat/completions",
        {**CHAT, "messages": [STRANGE], "stream_options": {"x": 1}, "zoo": 1},
        ("messages[].mood", "stream_options.x", "zoo"),
        CHAT,
    ),
    Case(
        "/v1/completions",
        {"model": MODEL, "prompt": "x", "zoo": 1},
        ("zoo",),
        {"model": MODEL, "prompt": "x"},
    ),
    Case(
        "/v1/messages",
        {**CHAT, "messages": [STRANGE], "max_tokens": 9, "metadata": {"x": 1}, "zoo": 1},
        ("messages[].mood", "metadata.x", "zoo"),
        {**CHAT, "max_tokens": 9},
    ),
    Case(
        "/v1/messages/count_tokens",
        {**CHAT, "messages": [STRANGE], "zoo": 1},
        ("messages[].mood", "zoo"),
        CHAT,
    ),
    Case(
        "/v1/responses",
        {"model": MODEL, "input": [STRANGE], "text": {"verbosity": "low"}, "zoo": 1},
        ("input[].mood", "text.verbosity", "zoo"),
        {"model": MODEL, "input": [HELLO]},
    ),
    Case(
        "/api/chat",
        {**CHAT, "messages": [STRANGE], "options": {"numa": True}, "zoo": 1, "stream": False},
        ("messages[].mood", "options.numa", "zoo"),
        {**CHAT, "stream": False},
    ),
    Case(
        "/api/generate",
        {"model": MODEL, "prompt": "x", "zoo": 1, "stream": False},
        ("zoo",),
        {"model": MODEL, "prompt": "x", "stream": False},
    ),
    Case(
        "/coordinator/infer",
        {"model": MODEL, "prompt": "x", "max_tokens": 9, "conversation_id": "a", "zoo": 1},
        ("zoo",),
        {"model": MODEL, "prompt": "x", "max_tokens": 9, "conversation_id": "b"},
    ),
)


async def answering(stage: Stage) -> None:
    """Add a node that answers everybody."""
    node = stage.add_node()
    node.on_open = lambda opened: node.answer(opened, "ok")
    await stage.ready()


@pytest.mark.parametrize("case", CASES, ids=[case.path for case in CASES])
async def test_they_are_read_past_and_named_in_the_log(
    stage: Stage, case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the top and below it; a body without any is not worth a line."""
    await answering(stage)
    logs.configure("debug", "json")
    for body in (case.plain, case.strange):
        assert (await ask(stage.port, "POST", case.path, copy.deepcopy(body))).status == 200
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    told = [line["fields"] for line in lines if line["event"] == "fields_ignored"]
    assert told == [list(case.names)]


@pytest.mark.parametrize("case", CASES, ids=[case.path for case in CASES])
async def test_strict_refuses_them_by_name(case: Case) -> None:
    """What has none is served as ever."""
    generation = msgspec.structs.replace(SETTINGS.generation, strict=True)
    infer = msgspec.structs.replace(SETTINGS.infer, strict=True)
    async with staged(
        msgspec.structs.replace(SETTINGS, generation=generation, infer=infer)
    ) as stage:
        await answering(stage)
        refused = await ask(stage.port, "POST", case.path, case.strange)
        assert refused.status == 400
        assert f"'{case.names[0]}' has no effect here" in refused.body.decode()
        assert (await ask(stage.port, "POST", case.path, case.plain)).status == 200


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", CHAT, "response_format"),
        ("/v1/responses", {"model": MODEL, "input": "x"}, "text.format.schema"),
        ("/responses", {"model": MODEL, "input": "x"}, "text.format.schema"),
    ],
)
async def test_what_a_node_finds_wrong_has_the_name_that_was_sent(
    stage: Stage, path: str, body: dict[str, object], param: str
) -> None:
    """A node knows one name for each field; who sent it by another one reads that."""
    node = stage.add_node()
    failure = Failure("unsupported", "no", "response_format")
    node.on_open = lambda opened: node.refuse(opened.stream, failure)
    await stage.ready()
    reply = await ask(stage.port, "POST", path, body)
    error = msgspec.convert(reply.json()["error"], dict[str, object])
    assert (reply.status, error["param"]) == (400, param)


@pytest.mark.parametrize(
    ("path", "found", "told"),
    [
        ("/v1/responses/resp_1", "from", "starting_after"),
        ("/v1/responses", "max_tokens", "max_output_tokens"),
        ("/v1/responses", "input[0].role", "input[0].role"),
        ("/v1/completions", "messages", "prompt"),
        ("/roost/v1/requests/1/stream", "from", "from"),
        ("/v1/responsesx", "from", "from"),
    ],
)
def test_names_of_fields_are_those_of_the_address(path: str, found: str, told: str) -> None:
    """Only where an API has another name for it."""
    errors = errors_under(lambda inside: inside)
    _, body = errors(Failure("bad_request", "no", found), path.encode(), "r1")
    assert json.loads(body)["error"]["param"] == told
