"""WIRING: what settings mean: every reader of theirs is asked, and all that is wrong is told.

`config.load` knows types and bounds. Whether a text means anything is said by whoever reads it at
the start of `serve`, `gateway` or `node`; here they are asked without anything being started.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roost.cli.parts.aliases import read_aliases
from roost.cli.parts.conversations import session_keys
from roost.cli.parts.engines import options_of, own_options, sizes_of, unread
from roost.cli.parts.gateway import kept, said_where
from roost.cli.parts.join_tokens import split_token
from roost.cli.parts.node import check_backend, kept_alive
from roost.cli.parts.pulling import check_endpoint
from roost.cli.parts.states import require_both_limits
from roost.cli.parts.upstream_list import UpstreamList
from roost.cli.parts.worker_beats import check_beats
from roost.cli.parts.worker_where import read_where
from roost.config import TABLE, Settings
from roost.config.load import Examined, Fault
from roost.config.read import read_all
from roost.config.table import BY_NAME
from roost.errors import RoostError, fail
from roost.gateway.foreign.address import read_nets
from roost.gateway.front.access import allowed, origins, trusted
from roost.gateway.front.server import check_certificate
from roost.gateway.watching.traces import check_collector
from roost.node.joining.socket_connection import link_url
from roost.store.credentials.fixed_keys import read_keys, read_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def examined(flags: Mapping[str, object]) -> Examined:
    """Load settings as `read_all` does, and count what means nothing among what is wrong.

    Raises `bad_request` only for a file that cannot be read.
    """
    loaded, faults = read_all(flags)
    # What two readers read is wrong once.
    more = dict(_meaningless(loaded.settings))
    wrong = set(more.values())
    values = zip(TABLE, loaded.settings, strict=True)
    settings = Settings._make(row.default if row.name in wrong else has for row, has in values)
    by = {name: "default" if name in wrong else by for name, by in loaded.origins.items()}
    return Examined(loaded._replace(settings=settings, origins=by), (*faults, *more))


def _meaningless(settings: Settings) -> Iterator[tuple[Fault, str]]:
    """Find what is well formed and refused by whoever reads it, and in which row it is."""
    for name, read in _READERS:
        try:
            read(settings)
        except RoostError as error:
            param = error.failure.param or name
            yield Fault(param, error.failure.message), param if param in BY_NAME else name


def _certificate(settings: Settings) -> None:
    if settings.tls_cert and settings.tls_key:
        with said_where(settings):
            check_certificate(settings.tls_cert, settings.tls_key)


def _token(settings: Settings) -> None:
    if settings.token and settings.token_file:
        raise fail("bad_request", "token and token_file: a node needs one of them, not both.")
    split_token(settings.token, "--token")


def _lasting(settings: Settings) -> None:
    if settings.sessions_persistence == "disk":
        require_both_limits(settings)


_READERS: tuple[tuple[str, Callable[[Settings], object]], ...] = (
    ("keys", lambda said: read_keys(said.keys)),
    ("node_tokens", lambda said: read_tokens(said.node_tokens)),
    ("aliases", lambda said: read_aliases(said.aliases)),
    ("placement.keep", lambda said: kept(said.placement_keep)),
    ("allowed_hosts", lambda said: allowed(said.host, said.allowed_hosts)),
    ("trusted_proxies", lambda said: trusted(said.trusted_proxies)),
    ("cors.origins", lambda said: origins(said.cors_origins)),
    ("session.keys", lambda said: session_keys(said.session_keys)),
    ("otel.endpoint", lambda said: check_collector(said.otel_endpoint)),
    ("coordinator.worker_nets", lambda said: read_nets(said.coordinator_worker_nets)),
    ("upstream.urls", UpstreamList([], []).read),
    ("tls_cert", _certificate),
    ("backend", check_backend),
    ("runtime.keep_alive", lambda said: kept_alive(said.runtime_keep_alive)),
    ("model_options", partial(options_of, look=unread)),
    ("model_options", partial(own_options, look=unread)),
    ("model_options", sizes_of),
    ("sessions.persistence", _lasting),
    ("join", lambda said: said.join and link_url(said.join)),
    ("token", _token),
    ("hub.endpoint", check_endpoint),
    ("worker_api", lambda said: said.worker_api and read_where(said.worker_api)),
    ("worker.heartbeat", check_beats),
)
"""Who reads what, and by which name it is told where the reader names none."""
