"""DECIDER: what a client asks for in headers, or in the object `roost` of its body."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from roost.core.request import CLASSES, OnLoss, ServiceClass
from roost.errors import fail

CLASS_HEADER = b"x-roost-class"
SESSION_HEADER = b"x-roost-session"
AFFINITY_HEADER = b"x-roost-affinity"
REATTACH_HEADER = b"x-roost-reattach-s"
EVENT_HEADER = b"last-event-id"
KEY_HEADER = b"idempotency-key"
KEY_MAX_CHARS = 255
_SECONDS = re.compile(r"\d{1,6}(?:\.\d{1,3})?", re.ASCII)
_EVENT_NUMBER = re.compile(r"\d{1,12}", re.ASCII)
ON_LOSS_HEADER = b"x-roost-on-loss"
CONTEXT_HEADER = b"x-roost-context"


class Twins(msgspec.Struct, frozen=True):
    """What a body has of what headers say otherwise, unread: the object `roost`.

    `cache_key` is `prompt_cache_key`, which has no header.
    """

    timeout_ms: object = None
    class_: object = None
    on_loss: object = None
    reattach_s: object = None
    session: object = None
    affinity: object = None
    context: object = None
    cache_key: str = ""


def twins(roost: Mapping[str, object], cache_key: str = "") -> Twins:
    """Take the twins of headers out of the object `roost` of a body."""
    return Twins(
        timeout_ms=roost.get("timeout_ms"),
        class_=roost.get("class"),
        on_loss=roost.get("on_loss"),
        reattach_s=roost.get("reattach_s"),
        session=roost.get("session"),
        affinity=roost.get("affinity"),
        context=roost.get("context"),
        cache_key=cache_key,
    )


def asked_affinity(header: bytes | None, in_body: object) -> bool:
    """Whether the conversation's KV is required and not merely preferred.

    The header counts more than the body, whose twin is `roost.affinity`.
    """
    value = in_body if header is None else header.decode("latin-1").strip()
    if value is None or value == "prefer":
        return False
    if value != "require":
        message = "The affinity must be 'prefer' or 'require'."
        raise fail("bad_request", message, param=AFFINITY_HEADER.decode())
    return True


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


def asked_on_loss(header: bytes | None, in_body: object) -> OnLoss:
    """Return what is to become of an answer whose runtime dies; an error where nothing is asked.

    The header counts more than the body, whose twin is `roost.on_loss`. Raises `bad_request` for
    anything but `error` and `replay`.
    """
    value = in_body if header is None else header.decode("latin-1").strip()
    if value is None or value == "error":
        return "error"
    if value == "replay":
        return "replay"
    message = "What becomes of an answer after a loss is one of error, replay."
    raise fail("bad_request", message, param=ON_LOSS_HEADER.decode())


def asked_trimming(header: bytes | None, in_body: object, *, by_default: bool) -> bool:
    """Return whether a conversation that is too long is trimmed and not refused.

    The header counts more than the body, whose twin is `roost.context`. Raises `bad_request` for
    anything but `trim` and `reject`.
    """
    value = in_body if header is None else header.decode("latin-1").strip()
    if value is None:
        return by_default
    if value not in ("trim", "reject"):
        message = "What becomes of a conversation that is too long is one of trim, reject."
        raise fail("bad_request", message, param=CONTEXT_HEADER.decode())
    return value == "trim"


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


def asked_window_s(
    header: bytes | None, in_body: object, *, most_s: float, streamed: bool
) -> float | None:
    """Return for how long a client that loses its connection wants to be awaited; None: not at all.

    The header counts more than the body, whose twin is `roost.reattach_s`. Raises `bad_request`
    for what is no number of seconds above 0 and up to `most_s`, and for what is no stream.
    """
    value = in_body if header is None else header.decode("latin-1").strip()
    if value is None:
        return None
    param = REATTACH_HEADER.decode()
    text = str(value)
    if not _SECONDS.fullmatch(text) or not 0 < float(text) <= most_s:
        message = f"The time to wait for a lost client is a number of seconds up to {most_s:g}."
        raise fail("bad_request", message, param=param)
    if not streamed:
        raise fail("bad_request", "Only a stream can be attached to again.", param=param)
    return float(text)


def asked_event(query: bytes, header: bytes | None) -> int:
    """Return the number of the first event that a client wants of a stream.

    That is the one after `Last-Event-ID`, which a browser sends by itself and with the address of
    its first try, otherwise `from` in the query, otherwise 0. Raises `bad_request` for no number.
    """
    pairs = (pair.partition("=") for pair in query.decode("latin-1").split("&"))
    asked = next((value for name, _, value in pairs if name == "from"), "0")
    last = None if header is None else header.decode("latin-1").strip()
    text, param = (asked, "from") if last is None else (last, EVENT_HEADER.decode())
    if not _EVENT_NUMBER.fullmatch(text):
        raise fail("bad_request", "Name an event by its number.", param=param)
    return int(text) if last is None else int(text) + 1
