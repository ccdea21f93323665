"""VALUE: where a reply is written to: a client's exchange, or what stands in front of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from roost.errors import Failure
    from roost.gateway.front.rendering import Headers


class Outlet(Protocol):
    """The part of an exchange that writing a reply needs; see `front.exchange`."""

    @property
    def blocked(self) -> bool:
        """Whether the client does not keep up."""
        ...

    @property
    def done(self) -> bool:
        """Whether nothing follows, and nobody waits for it."""
        ...

    def start(self, status: int, headers: Headers, *, length: int | None = None) -> None:
        """Begin the reply."""
        ...

    def write(self, data: bytes) -> None:
        """Send a piece of body."""
        ...

    def finish(self, data: bytes = b"") -> None:
        """End the reply."""
        ...

    def reply(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """Send a whole reply."""
        ...

    def fail(self, failure: Failure) -> None:
        """Send a failure in place of a reply."""
        ...

    def break_off(self) -> None:
        """End the connection so that the client can see that the reply is not complete."""
        ...

    def abandon(self) -> None:
        """End the connection: the client has left, or does not read."""
        ...
