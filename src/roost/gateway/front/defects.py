"""SHELL: what becomes of an exception that nobody expected: one line in the log, and a failure.

The line has the exception's type and the place in roost, never its message: that may quote what a
client sent.
"""

from __future__ import annotations

import asyncio
import traceback

from roost.errors import Failure, RoostError
from roost.gateway.front.asgi import App, Receive, Scope, Send
from roost.gateway.http1 import HttpParserCallbackError, HttpParserError
from roost.observe import logs

INTERNAL = Failure("internal", "Something went wrong in this server.")


def failure_of(error: Exception, request: str = "") -> Failure:
    """Return what the client is told; what is no `RoostError` is a defect and is reported."""
    if isinstance(error, RoostError):
        return error.failure
    report(error, request)
    return INTERNAL


def parse_failure(error: HttpParserError) -> Failure:
    """Return why parsing ended: the client's bytes, or a defect in a callback of ours."""
    # The parser wraps what a callback raises, and would make a 400 of it.
    cause = error.__context__
    if isinstance(error, HttpParserCallbackError) and isinstance(cause, Exception):
        return failure_of(cause)
    return Failure("bad_request", "This is no valid HTTP/1.1.")


def report(error: BaseException, request: str = "") -> None:
    """Log a defect; `request` is the id of the request it happened in, if there is one."""
    logs.get().error(
        "internal_error", error=type(error).__name__, where=where(error), request=request
    )


def where(error: BaseException) -> str:
    """Return `module:line` of the innermost frame of roost, "" where there is none."""
    innermost = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] == "roost":
            innermost = f"{module}:{line}"
    return innermost


def contained(app: App) -> App:
    """Keep what an application raises for a WebSocket from the log of its protocol.

    A `RoostError` there is how a link ends; its traceback would be noise. HTTP is not touched: the
    bridge answers for it.
    """

    async def entry(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await app(scope, receive, send)
            return
        try:
            await app(scope, receive, send)
        except OSError:
            return  # the peer has left
        except asyncio.CancelledError:
            return  # the front closes; the protocol would swallow this too, but print it first
        except Exception as error:  # noqa: BLE001 - the connection ends, whatever it is
            failure_of(error)

    return entry
