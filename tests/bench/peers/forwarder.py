"""A gateway of nobody's, with the command line of a router: hands bytes to a server and back."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from itertools import cycle
from urllib.parse import urlsplit


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Hand on what comes, and the end."""
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()


async def forward(port: int, servers: Sequence[int]) -> None:
    """Listen, and connect everybody to the servers in turn, for as long as this process lives."""
    turns = cycle(servers)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect one client, or close where nobody listens."""
        try:
            there, back = await asyncio.open_connection("127.0.0.1", next(turns))
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, back), pump(there, writer))

    async with await asyncio.start_server(connected, "127.0.0.1", port) as listening:
        await listening.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--worker-urls", nargs="+")
    told, _ = parser.parse_known_args()
    asyncio.run(forward(told.port, [urlsplit(url).port or 0 for url in told.worker_urls]))
