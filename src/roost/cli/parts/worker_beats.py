"""WIRING: what a worker API tells a coordinator of system 1 of itself, and the key it wants to see.

The key is made anew at every start: it goes to the coordinator with each heartbeat, and opens this
worker's API and nothing else.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from roost import __version__
from roost.cli.parts.join_tokens import split_token
from roost.cli.parts.worker_where import read_where
from roost.core.hosts import is_loopback
from roost.core.worker import WorkerBeat, WorkerHealth
from roost.errors import fail
from roost.gateway.front.access import WILDCARDS
from roost.node.worker.beat import Beats, BeatSettings, read_place
from roost.observe import logs

if TYPE_CHECKING:
    from roost.config import Settings
    from roost.core.ids import NodeId
    from roost.node.worker.desk import WorkerDesk
    from roost.node.worker.link import WorkerLink


class Worker(NamedTuple):
    """A worker API that listens at `url`, on this node."""

    node: NodeId
    url: str
    key: str
    desk: WorkerDesk
    link: WorkerLink


def check_beats(settings: Settings) -> None:
    """Refuse heartbeats that nobody could hear or follow, before anything listens."""
    if not settings.worker_heartbeat:
        return
    place = read_place(settings.worker_heartbeat)
    if not settings.worker_api:
        message = "--worker-heartbeat tells of the worker API: give --worker-api HOST:PORT too."
        raise fail("bad_request", message, param="worker.heartbeat")
    if read_where(settings.worker_api).host in WILDCARDS and not settings.worker_url:
        message = "--worker-url: say at which address the coordinator reaches this worker."
        raise fail("bad_request", message, param="worker.url")
    _, pin = split_token(settings.worker_heartbeat_token, "--worker-heartbeat-token")
    if pin and not place.tls and not is_loopback(place.host):
        message = "--worker-heartbeat: the token names a certificate, so write https://HOST:PORT."
        raise fail("bad_request", message, param="worker.heartbeat")


def open_beats(settings: Settings, worker: Worker) -> Beats | None:
    """Have heartbeats sent, where the settings ask for that."""
    if not settings.worker_heartbeat:
        return None
    place = read_place(settings.worker_heartbeat)
    if not place.tls and not is_loopback(place.host):
        print(f"roost: heartbeats travel to {place.host} without TLS", file=sys.stderr)
    url = settings.worker_url or worker.url
    assert urlsplit(url).hostname not in WILDCARDS, "that was checked"
    who = WorkerBeat(
        worker=settings.worker_id or worker.node,
        url=url,
        health=WorkerHealth(),
        sampling=True,
        key=worker.key,
        engine="roost",
        version=__version__,
    )
    token, pin = split_token(settings.worker_heartbeat_token, "--worker-heartbeat-token")
    told = BeatSettings(
        url=settings.worker_heartbeat,
        token=token,
        pin=pin,
        every_s=settings.worker_heartbeat_s,
        timeout_s=settings.worker_heartbeat_timeout_s,
    )
    return Beats(told, lambda: worker.desk.beat(who), worker.link.drained, logs.get())
