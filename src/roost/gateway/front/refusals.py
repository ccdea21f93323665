"""VALUE: what a client is told that asks at the wrong time or for too much."""

from __future__ import annotations

from roost.errors import Failure

DRAINING = Failure(
    "draining", "This instance is shutting down and takes no new requests.", retry_after_s=1
)
TOO_MANY_CONNECTIONS = Failure(
    "overloaded", "Too many connections; try again soon.", retry_after_s=1
)
TOO_MANY_BODIES = Failure(
    "overloaded",
    "The bodies of other requests take all memory set aside for them; try again soon.",
    retry_after_s=1,
)


def too_large(body_max_bytes: int) -> Failure:
    """Return the failure of a body over the limit."""
    return Failure("body_too_large", f"The body is over the limit of {body_max_bytes} bytes.")


def head_too_large(head_max_bytes: int) -> Failure:
    """Return the failure of a head over the limit."""
    return Failure("headers_too_large", f"The head is over {head_max_bytes} bytes.")
