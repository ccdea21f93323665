"""WIRING: the stateless gateway as a process of its own, for benchmarks.

All policy is on, as `roost gateway --upstream` has it with a key: Host and Origin checks, key
check, admission, metrics, request ids. Its first line is the JSON `{"port": …}`.
"""

from __future__ import annotations

import argparse
import hashlib
import sys

from roost.core.ids import TenantId
from roost.fleet.upstream.pool import PoolSettings
from roost.gateway.front.access import Principal, by_digest
from roost.gateway.front.limits import Listener
from roost.gateway.loop import run
from roost.gateway.upstream.gateway import (
    UpstreamGateway,
    UpstreamSettings,
    run_upstream_gateway,
)
from roost.gateway.upstream.targets import parse_target
from roost.observe import logs


def _on_ready(gateway: UpstreamGateway) -> None:
    assert gateway.front is not None, "ready without a listener"
    sys.stdout.write(f'{{"port":{gateway.front.port}}}\n')
    sys.stdout.flush()


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", action="append", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", required=True)
    arguments = parser.parse_args()
    targets = tuple(parse_target(url, i) for i, url in enumerate(arguments.upstream, 1))
    settings = UpstreamSettings(
        targets, Listener(port=arguments.port), pool=PoolSettings(max_in_flight=4096)
    )
    digest = hashlib.sha256(arguments.key.encode()).hexdigest()
    authorise = by_digest({digest: Principal(TenantId("key:bench"))})
    logs.configure("warning")
    run(run_upstream_gateway(settings, authorise, _on_ready))


if __name__ == "__main__":
    main()
