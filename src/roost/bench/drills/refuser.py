"""WIRING: a server that refuses whatever it is asked, at once: what a refusal takes without roost.

The same client asks it as often as it asks roost, so that what the machine and the client add to a
refusal is in both figures.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from roost.gateway.loop import run

_BODY = b'{"error":{"message":"full","type":"rate_limit_error","param":null,"code":"queue_full"}}'
REFUSAL = (
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_BODY), _BODY)
)


class Refuser(asyncio.Protocol):
    """Answers when something has come; a short request comes in one piece."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what to write to."""
        assert isinstance(transport, asyncio.Transport), "a stream has a transport of streams"
        self._transport = transport

    def data_received(self, _data: bytes) -> None:
        """Refuse."""
        self._transport.write(REFUSAL)
        self._transport.close()


async def serve() -> None:
    """Listen on a free port, say so, and refuse until the end."""
    server = await asyncio.get_running_loop().create_server(Refuser, "127.0.0.1", 0)
    sys.stdout.write(f"refuses on {server.sockets[0].getsockname()[1]}\n")
    await server.serve_forever()


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--home", help="taken and not used, as every process of a drill is given it"
    )
    parser.parse_args()
    run(serve())


if __name__ == "__main__":
    main()
