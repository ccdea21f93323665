"""SHELL: operators have a node fetch a model: who may, and what they may ask for.

What the node does is in its reports from then on, and so in `/roost/v1/fleet`.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec

from roost.errors import Failure, RoostError, fail
from roost.gateway.desk.api_types import PullAsked
from roost.gateway.desk.bodies import read_json
from roost.gateway.desk.endpoints import linked
from roost.gateway.front.rendering import JSON_BODY
from roost.store.pulling.sources import FileSource, parse_source
from roost.wire.messages import Pull

if TYPE_CHECKING:
    from roost.gateway.mind import Mind
    from roost.gateway.routes import Call

FILE_MAX_CHARACTERS = 1024
NO_PULLS = Failure(
    "unsupported",
    "This node takes no pulls: its `models.pulls` is refuse, or its roost is an older one.",
)
NO_SUCH_PULL = Failure("not_found", "The node has no such pull, or it is over.")
TOO_OLD = Failure("unsupported", "This node's roost cannot give up a pull: upgrade it.")


def pull_onto(mind: Mind, call: Call, name: str) -> None:
    """Answer POST /roost/v1/nodes/{id}/pull: 202 with the job's id, by which reports name it.

    Only sources that are the same everywhere: a path would have an operator's key read the files of
    a machine that was lent for its models.
    """
    link, node = linked(mind, name)
    if node.pulls is None:
        raise RoostError(NO_PULLS)
    asked = _read(call.exchange.take_body())
    job = secrets.token_hex(6)
    mind.log.info("operated", by=call.tenant, what="pull", node=name, source=asked.source)
    link.pull(Pull(job, asked.source, asked.file, asked.accept_licence))
    body = msgspec.json.encode({"node": name, "job": job})
    call.exchange.reply(202, JSON_BODY, body)


def cancel_pull(mind: Mind, call: Call, name: str, job: str) -> None:
    """Answer DELETE /roost/v1/nodes/{id}/pull/{job}: 202; its end is in the node's reports."""
    link, node = linked(mind, name)
    if not any(one.job == job and not one.is_over for one in node.pulls or ()):
        raise RoostError(NO_SUCH_PULL)
    if not link.cancel_pull(job):
        raise RoostError(TOO_OLD)
    mind.log.info("operated", by=call.tenant, what="cancel_pull", node=name)
    call.exchange.reply(202, JSON_BODY, msgspec.json.encode({"node": name, "job": job}))


def _read(body: bytes) -> PullAsked:
    example = '{"source": …}, with "file" and "accept_licence" if need be'
    asked = read_json(body, PullAsked, example)
    if isinstance(parse_source(asked.source), FileSource):
        message = "A node fetches pypi: and hf: sources; files of its own are installed there."
        raise fail("bad_request", message, param="source")
    if len(asked.file) > FILE_MAX_CHARACTERS or not asked.file.isprintable():
        raise fail("bad_request", "This is no name of a file.", param="file")
    return asked
