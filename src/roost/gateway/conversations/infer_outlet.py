"""SHELL: replies to clients of system 1: an exchange that tells failures in their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.dialects.system1.infer_errors import InferCase, error_body
from roost.gateway.control_words import is_control, refusal
from roost.gateway.front.rendering import failure_headers

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.errors import Failure
    from roost.gateway.front.exchange import Exchange
    from roost.gateway.front.rendering import Errors, Headers
    from roost.gateway.replay.reel import Reel

ROOT = b"/coordinator/"


def errors_by_path(base_path: str, other: Errors, *, legacy_503: bool) -> Errors:
    """Tell failures at addresses of system 1 as it did, and all others as `other` does.

    The control protocol has an envelope of its own.
    """
    base = base_path.encode()
    root = base + ROOT

    def render(failure: Failure, path: bytes, request_id: str) -> tuple[int, bytes]:
        if path.startswith(root):
            return error_body(failure, InferCase(request_id, legacy_503=legacy_503))
        if is_control(path.removeprefix(base)):
            return failure.status, refusal(failure, request_id)
        return other(failure, path, request_id)

    return render


class InferOutlet:
    """Passes everything on to the exchange; `case` says what a failure alone does not."""

    def __init__(self, exchange: Exchange | Reel, case: Callable[[Failure], InferCase]) -> None:
        self._exchange = exchange
        self._case = case

    @property
    def blocked(self) -> bool:
        """Whether the client does not keep up."""
        return self._exchange.blocked

    @property
    def done(self) -> bool:
        """Whether nothing follows."""
        return self._exchange.done

    def start(self, status: int, headers: Headers, *, length: int | None = None) -> None:
        """Begin the reply."""
        self._exchange.start(status, headers, length=length)

    def write(self, data: bytes) -> None:
        """Send a piece of body."""
        self._exchange.write(data)

    def finish(self, data: bytes = b"") -> None:
        """End the reply."""
        self._exchange.finish(data)

    def reply(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """Send a whole reply."""
        self._exchange.reply(status, headers, body)

    def fail(self, failure: Failure) -> None:
        """Send a failure in place of a reply, with all that is known of it."""
        if self._exchange.started:
            self._exchange.fail(failure)
            return
        status, body = error_body(failure, self._case(failure))
        self._exchange.reply(status, failure_headers(failure), body)

    def break_off(self) -> None:
        """End the connection so that the client can see that the reply is not complete."""
        self._exchange.break_off()

    def abandon(self) -> None:
        """Let go of a client that is gone or does not read."""
        self._exchange.abandon()
