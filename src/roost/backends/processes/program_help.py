"""SHELL: what a program says of its own flags."""

from __future__ import annotations

import asyncio

from roost.errors import fail

HELP_MAX_BYTES = 1024 * 1024


async def help_of(argv: tuple[str, ...], name: str, timeout_s: float) -> str:
    """Ask a program which flags it knows; raises `load_failed` where it does not answer."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        message = f"{name} cannot be started: {error.strerror}."
        raise fail("load_failed", message) from None
    try:
        async with asyncio.timeout(timeout_s):
            text = await _whole(process.stdout, name)
            await process.wait()
    except TimeoutError:
        raise fail("load_failed", f"{name} does not answer --help.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return text.decode("utf-8", "replace")


async def _whole(output: asyncio.StreamReader | None, name: str) -> bytes:
    """Read to the end; a program that has more to say than any help is no server."""
    found = b""
    while output and (piece := await output.read(HELP_MAX_BYTES)):
        found += piece
        if len(found) > HELP_MAX_BYTES:
            raise fail("load_failed", f"{name} does not answer --help.")
    return found
