"""DECIDER: what a client asks for in headers, or in the object `roost` of its body."""

from __future__ import annotations

from typing import get_args

from roost.core.request import ServiceClass
from roost.errors import fail

CLASS_HEADER = b"x-roost-class"
KEY_HEADER = b"idempotency-key"
KEY_MAX_CHARS = 255
CLASSES: tuple[ServiceClass, ...] = get_args(ServiceClass)


def asked_class(
    header: bytes | None, in_body: object, best: ServiceClass = "interactive"
) -> ServiceClass:
    """Return the class of service; the best allowed where nothing is asked.

    The header counts more than the body, whose twin is `roost.class`. Asking may only lower: more
    than `best` gets `best`. Raises `bad_request` for a class that does not exist.
    """
    value = in_body if header is None else header.decode("latin-1").strip()
    if value is None:
        return best
    for known in CLASSES:
        if value == known:
            return max(known, best, key=CLASSES.index)
    message = f"The class must be one of {', '.join(CLASSES)}."
    raise fail("bad_request", message, param=CLASS_HEADER.decode())


def asked_key(header: bytes | None) -> str | None:
    """Return the key under which the request is to run once; None where there is none.

    Raises `bad_request` for what is not 1 to 255 visible ASCII characters.
    """
    if header is None:
        return None
    if not 1 <= len(header) <= KEY_MAX_CHARS or not all(0x20 < byte < 0x7F for byte in header):
        message = f"An Idempotency-Key is 1 to {KEY_MAX_CHARS} visible ASCII characters."
        raise fail("bad_request", message, param=KEY_HEADER.decode())
    return header.decode("ascii")
